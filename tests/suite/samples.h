#pragma once

// Sample inputs: drawing them, laying them out in guarded memory, and reading results back.

#include <memory>

#include "tests/suite/harness.h"

namespace tensora::suite {

/// Stores `value` as an element of `dtype`; integers wrap around, as kernels do. Of complex
/// elements the suite's arrays hold the real part: what is special about them, complex_cases.cpp
/// checks.
void store_element(void* address, DType dtype, double value);
double load_element(const void* address, DType dtype);
/// `value` after a round trip through `dtype`.
double rounded(double value, DType dtype);

/// A deterministic source of numbers in [0, 1).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}
  double next();

 private:
  uint64_t state_;
};
/// A seed that depends on the case and on the run's seed only.
uint64_t seed_of(const Check& check, uint64_t purpose = 0);

/// The values of all inputs, already rounded to their dtypes.
ArrayList draw_inputs(const Check& check);
/// The dtype that input `i` of a case has.
DType input_dtype(const Check& check, size_t i);
/// Values in [-1, 1) for weights and directions.
Array draw_weights(const Shape& sizes, Numbers& numbers);

/// How the elements of a tensor lie in memory.
struct Layout {
  Strides strides;
  int64_t offset = 0;
  int64_t extent = 0;  // elements from the start of the storage to past the last one
};
Layout contiguous_layout(const Shape& sizes);
/// The strided layouts of the `view` mode; every one describes any shape.
struct NamedLayout {
  std::string_view name;
  Layout (*of)(const Shape& sizes);
};
std::span<const NamedLayout> strided_layouts();

/// A tensor in memory of its own, with guards around and between its elements. Guards are all ones:
/// NaN in every floating type, so that an element read by mistake shows.
class Placed {
 public:
  Placed(const Array& values, DType dtype, const Layout& layout, Device device);

  const Tensor& tensor() const { return tensor_; }
  /// Fails if any byte changed, guards or elements.
  void require_unchanged(std::string_view what) const;
  /// Fails if a byte changed that belongs to no element.
  void require_guards_intact(std::string_view what) const;

 private:
  std::vector<std::byte> bytes_now() const;
  std::vector<bool> element_bytes() const;

  std::shared_ptr<std::vector<std::byte>> memory_;  // the host's copy; the tensor's own on a CPU
  std::vector<std::byte> before_;
  Tensor tensor_;
};

/// All inputs of a case in one layout.
class Inputs {
 public:
  Inputs(const Check& check, const ArrayList& values,
         const std::function<Layout(const Shape&, size_t input)>& layout);
  Inputs(const Check& check, const ArrayList& values);  // contiguous

  In tensors() const { return tensors_; }
  const Tensor& operator[](size_t i) const { return tensors_[i]; }
  const Placed& placed(size_t i) const { return placed_[i]; }
  void require_unchanged() const;

 private:
  std::vector<Placed> placed_;
  std::vector<Tensor> tensors_;
};

/// Runs a case, or its in-place form, with the random stream at its beginning.
Out run(const Check& check, In inputs);
void run_inplace(const Check& check, In inputs);

/// The elements of a tensor on any device, in row-major order.
Array read(const Tensor& tensor);
ArrayList read_all(const Out& tensors);

/// How far apart two elements of a dtype may be: |got - expected| <= absolute + relative *
/// |expected|.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
Tolerance tolerance_of(DType dtype, double factor);
/// Fails, naming `what`, the largest error and the first bad index, unless the arrays agree. NaN
/// equals NaN, and infinities must match.
void require_close(const Array& got, const Array& expected, Tolerance tolerance,
                   std::string_view what);

}  // namespace tensora::suite
