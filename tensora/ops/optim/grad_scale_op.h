#pragma once

// Internal header: the ops behind amp::GradScaler.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (found_inf, grads..., inv_scale): multiplies the gradients by inv_scale and sets found_inf to 1
/// if one of their elements was not finite. With `check_only` (found_inf, grads...), of which only
/// found_inf is written. The gradients are dense; the two numbers are float32.
struct ListUnscaleAttrs {
  bool check_only = false;
};
constexpr auto describe(std::type_identity<ListUnscaleAttrs>) {
  return fields(field("check_only", &ListUnscaleAttrs::check_only));
}
extern OpDef<ListUnscaleAttrs> list_unscale_op;

/// (scale, growth_tracker, found_inf) -> the new (scale, growth_tracker): the scale is multiplied
/// by backoff_factor if found_inf is not 0, and by growth_factor after growth_interval calls
/// without.
struct UpdateScaleAttrs {
  double growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;
};
constexpr auto describe(std::type_identity<UpdateScaleAttrs>) {
  using A = UpdateScaleAttrs;
  return fields(field("growth_factor", &A::growth_factor),
                field("backoff_factor", &A::backoff_factor),
                field("growth_interval", &A::growth_interval));
}
extern OpDef<UpdateScaleAttrs> update_scale_op;

}  // namespace tensora
