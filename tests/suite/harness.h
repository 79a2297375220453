#pragma once

// What the modes of the op suite share: one check at a time, and how a check fails.

#include <stdexcept>

#include "tests/suite/cases.h"

namespace tensora::suite {

/// What holds for a whole run.
struct Setting {
  Device device = {};
  uint64_t seed = 0;
  bool quick = false;  // a deterministic subsample, for slow builds
  int max_threads = 1;
};

/// One case in one dtype.
struct Check {
  const Case& sample;
  DType dtype;
  const Setting& setting;
};

/// Thrown by a mode when a check fails; the text says what was expected and what came.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
template <class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) throw Failure(concat(parts...));
}

// One function per mode that looks at a case in a dtype. They throw Failure, or whatever the op
// throws.
void check_value(const Check& check);
void check_view(const Check& check);
void check_grad(const Check& check);
void check_inplace_form(const Check& check);
void check_determinism(const Check& check);
void check_meta(const Check& check);
void check_jit(const Check& check);

/// Runs an error case: the right message, and a library that still works afterwards.
void check_error(const ErrorCase& mistake);

/// The dtype that output `i` of a case must have.
DType expected_dtype(const Check& check, size_t i);

/// Sets what device() and dtype() answer, for the life of the object.
class UnderTest {
 public:
  UnderTest(Device device, DType dtype);
  ~UnderTest();
  UnderTest(const UnderTest&) = delete;
  UnderTest& operator=(const UnderTest&) = delete;

 private:
  Device saved_device_;
  DType saved_dtype_;
};

}  // namespace tensora::suite
