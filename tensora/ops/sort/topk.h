#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct TopkAttrs {
  int64_t k = 1;
  int64_t dim = -1;
  bool largest = true;
};
/// Outputs: values, indices.
extern OpDef<TopkAttrs> topk_op;

/// The `k` largest (smallest) elements of each line along `dim`, in that order, and where they
/// were, (values, indices). NaN counts as the largest number; of equal elements the first ones are
/// chosen. The result is in order even if `sorted` does not ask for it.
std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim = -1,
                                bool largest = true, bool sorted = true);

}  // namespace tensora
