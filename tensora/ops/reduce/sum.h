#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct ReduceAttrs;
extern OpDef<ReduceAttrs> sum_op, mean_op, nansum_op, count_nonzero_op;

struct SumToAttrs {
  Shape size;
};
extern OpDef<SumToAttrs> sum_to_op;

/// The sum over `dim` (all dims if empty). Integers and bools are summed as int64; `dtype`, if
/// given, is what the elements are cast to first.
Tensor sum(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
           std::optional<DType> dtype = {});
Tensor sum(const Tensor& self, DType dtype);
/// The average; NaN where there is nothing to average. Needs a floating dtype.
Tensor mean(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
            std::optional<DType> dtype = {});
Tensor mean(const Tensor& self, DType dtype);
/// The same of the elements that are not NaN.
Tensor nansum(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
              std::optional<DType> dtype = {});
Tensor nanmean(const Tensor& self, const Dims& dim = {}, bool keepdim = false,
               std::optional<DType> dtype = {});
/// How many elements are not zero, as int64.
Tensor count_nonzero(const Tensor& self, const Dims& dim = {});

/// The dims of `to` along which broadcasting repeats a tensor of shape `from`.
Dims broadcast_dims(const Shape& from, const Shape& to);
/// Sums over the dims along which a tensor of shape `size` was broadcast to the shape of `self`.
Tensor sum_to(const Tensor& self, const Shape& size);

}  // namespace tensora
