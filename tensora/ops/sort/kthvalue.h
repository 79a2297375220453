#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct KthvalueAttrs {
  int64_t k = 1;
  int64_t dim = -1;
  bool keepdim = false;
};
/// Outputs: values, indices.
extern OpDef<KthvalueAttrs> kthvalue_op;

struct MedianAttrs {
  int64_t dim = 0;
  bool keepdim = false;
};
/// Outputs: values, indices.
extern OpDef<MedianAttrs> median_dim_op, nanmedian_dim_op;
/// Of all elements.
extern OpDef<NoAttrs> median_op, nanmedian_op;

/// The k-th smallest element of each line along `dim`, counted from 1, and where it is, (values,
/// indices). NaN counts as the largest number; equal elements count in their order.
std::tuple<Tensor, Tensor> kthvalue(const Tensor& self, int64_t k, int64_t dim = -1,
                                    bool keepdim = false);

/// The median of each line along `dim`, of an even number of elements the lower one, and where it
/// is, (values, indices). It is NaN if the line contains one.
std::tuple<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim = false);
/// The same of the elements that are not NaN; NaN if there are none.
std::tuple<Tensor, Tensor> nanmedian(const Tensor& self, int64_t dim, bool keepdim = false);
/// Of all elements. All that equal the median share its gradient evenly.
Tensor median(const Tensor& self);
Tensor nanmedian(const Tensor& self);

}  // namespace tensora
