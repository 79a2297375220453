#pragma once

// Internal header: the ops of group_norm.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct GroupNormAttrs {
  int64_t num_groups = 1;
  double eps = 1e-5;
};
constexpr auto describe(std::type_identity<GroupNormAttrs>) {
  return fields(field("num_groups", &GroupNormAttrs::num_groups),
                field("eps", &GroupNormAttrs::eps));
}

struct GroupNormBackwardAttrs {
  int64_t num_groups = 1;
  double eps = 1e-5;
  bool weight = false, bias = false;  // whether their gradients are wanted
};
constexpr auto describe(std::type_identity<GroupNormBackwardAttrs>) {
  using A = GroupNormBackwardAttrs;
  return fields(field("num_groups", &A::num_groups), field("eps", &A::eps),
                field("weight_gradient", &A::weight), field("bias_gradient", &A::bias));
}

/// (input, weight?, bias?) -> (result, mean, var): one mean and biased variance per sample and
/// group, in float32, or float64 for a float64 input.
extern OpDef<GroupNormAttrs> group_norm_op;
/// (grad, input, mean, var, weight?) -> the gradients of the input and, where wanted, of weight and
/// bias.
extern OpDef<GroupNormBackwardAttrs> group_norm_backward_op;

/// A row-major array of samples and channels as planes: [1, samples * channels, elements], or with
/// the elements of `together` channels in one plane.
inline View as_planes(View view, int64_t together) {
  const int64_t planes = view.sizes[0] * view.sizes[1] / together;
  int64_t plane = together;
  for (int d = 2; d < view.dim(); ++d) plane *= view.sizes[d];
  view.sizes = {1, planes, plane};
  view.strides = {planes * plane, plane, 1};
  view.update();
  return view;
}

}  // namespace tensora
