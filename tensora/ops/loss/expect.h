#pragma once

// Internal header: losses refuse elements that make no sense to them.

#include "tensora/base/error_kinds.h"
#include "tensora/dispatch/op_def.h"

namespace tensora {

/// What the elements of a tensor must be.
enum class Expected : uint8_t { probability, variance, target_probability };
constexpr std::array<std::string_view, 3> names_of(std::type_identity<Expected>) {
  return {"probability", "variance", "target_probability"};
}
struct ExpectAttrs {
  Expected what = Expected::probability;
};
constexpr auto describe(std::type_identity<ExpectAttrs>) {
  return fields(field("what", &ExpectAttrs::what));
}
/// Throws where an element is something else, on CUDA at the next synchronisation. The result is
/// empty.
extern OpDef<ExpectAttrs> expect_op;

/// The range that is meant, and how its violation is reported; the texts live forever.
struct Expectation {
  double low, high;
  bool nan_passes;
  const char *function, *sentence;
  bool is_value_error = false;  // otherwise a plain Error, as in PyTorch
};
inline constexpr Expectation kExpectations[] = {
    {0, 1, false, "binary_cross_entropy", "all elements of input must be between 0 and 1"},
    {0, __builtin_huge_val(), true, "gaussian_nll_loss", "var must not have negative elements",
     true},
    {0, 1, false, "binary_cross_entropy", "all elements of target must be between 0 and 1"}};

[[noreturn]] inline void fail_expectation(const Expectation& expected, std::string_view got = {}) {
  const std::string text = concat(expected.function, ": ", expected.sentence, got);
  if (expected.is_value_error) throw ValueError(text);
  throw_error(text);
}

}  // namespace tensora
