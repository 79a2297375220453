#pragma once

#include <string_view>

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct CdistAttrs {
  double p = 2;
};
/// x1 (… P M), x2 (… R M) of one batch -> the distances (… P R).
extern OpDef<CdistAttrs> cdist_op;
/// The gradient of x1: grad (… P R), x1, x2, distances (… P R) -> … P M.
extern OpDef<CdistAttrs> cdist_backward_op;
/// The same distances for p = 2 by one matrix product: less exact where two points are close.
extern OpDef<NoAttrs> euclidean_distance_op;

/// The p-norm of the difference of each row of x1 and each row of x2; batch dims broadcast. For p =
/// 2 `compute_mode` says when a matrix product is used: "use_mm_for_euclid_dist_if_necessary" if
/// there are more than 25 rows, "use_mm_for_euclid_dist" or "donot_use_mm_for_euclid_dist".
Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2,
             std::string_view compute_mode = "use_mm_for_euclid_dist_if_necessary");
/// The p-norm of the difference of each pair of different rows of a matrix: rows 0 and 1, 0 and 2,
/// ….
Tensor pdist(const Tensor& input, double p = 2);

}  // namespace tensora
