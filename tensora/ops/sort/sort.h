#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct SortAttrs {
  int64_t dim = -1;
  bool descending = false;
};
/// Outputs: values, indices.
extern OpDef<SortAttrs> sort_op;

/// The elements of each line along `dim` in ascending order, and where they were, (values,
/// indices). NaN counts as the largest number. Equal elements keep their order, whether `stable` is
/// asked for or not.
std::tuple<Tensor, Tensor> sort(const Tensor& self, int64_t dim = -1, bool descending = false,
                                bool stable = false);
/// The indices alone.
Tensor argsort(const Tensor& self, int64_t dim = -1, bool descending = false, bool stable = false);
/// The values alone, sorted along the first dim.
Tensor msort(const Tensor& self);

}  // namespace tensora
