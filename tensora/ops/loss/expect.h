#pragma once

// Internal header: losses refuse elements that make no sense to them.

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
};
inline constexpr Expectation kExpectations[] = {
    {0, 1, false, "binary_cross_entropy", "all elements of input must be between 0 and 1"},
    {0, __builtin_huge_val(), true, "gaussian_nll_loss", "var must not have negative elements"},
    {0, 1, false, "binary_cross_entropy", "all elements of target must be between 0 and 1"}};

}  // namespace tensora
