#pragma once

#include <string_view>

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Sums of products by Einstein's convention: `einsum("bij,bjk->bik", {x, y})`. A letter names a
/// dim; one that the result lacks is summed over, one that an operand repeats takes its diagonal,
/// and
/// "..." stands for dims that broadcast. Without "->" the result has the letters that occur once,
/// in the order of the alphabet. Several operands are contracted pair by pair, in the cheapest
/// order.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

/// Sums the products over pairs of dims, `dims_self[i]` of `input` with `dims_other[i]` of `other`;
/// the remaining dims of `input`, then those of `other`, are the result's.
Tensor tensordot(const Tensor& input, const Tensor& other, const Dims& dims_self,
                 const Dims& dims_other);
/// The same over the last `dims` dims of `input` and the first ones of `other`.
Tensor tensordot(const Tensor& input, const Tensor& other, int64_t dims = 2);

}  // namespace tensora
