#pragma once

// Internal header: what all reductions share.

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ReduceAttrs {
  Dims dim;  // empty: all
  bool keepdim = false;
  std::optional<DType> dtype = {};
};
constexpr auto describe(std::type_identity<ReduceAttrs>) {
  return fields(field("dim", &ReduceAttrs::dim), field("keepdim", &ReduceAttrs::keepdim),
                field("dtype", &ReduceAttrs::dtype));
}

/// Bit d is set if dim d is reduced. Throws, naming `op`, for a dim that is out of range or named
/// twice.
uint32_t reduced_mask(const Dims& dim, int rank, std::string_view op);
/// The shape of the result.
Shape reduced_sizes(const Shape& sizes, uint32_t mask, bool keepdim);
/// How many elements make one element of the result.
int64_t reduced_count(const Shape& sizes, uint32_t mask);
inline int64_t reduced_count(const Shape& sizes, const Dims& dim, std::string_view op) {
  return reduced_count(sizes, reduced_mask(dim, sizes.size(), op));
}

/// The mask of `dim`, all of whose sizes are checked not to be 0, for reductions without a neutral
/// element.
uint32_t nonempty_mask(const Infer& infer, const Dims& dim);

/// A view of a reduction's result, or of its gradient, that repeats it along the reduced dims, in
/// the input's shape `sizes`.
Tensor unreduce(const Tensor& result, const Shape& sizes, const Dims& dim, bool keepdim);

}  // namespace tensora
