#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

struct VarianceAttrs {
  Dims dim;  // empty: all
  double correction = 1;
  bool keepdim = false;
};
extern OpDef<VarianceAttrs> var_op, std_op, var_mean_op, std_mean_op;

/// The variance over `dim` (all dims if empty): the squared distances from the mean, summed, over
/// n - correction. 1 gives the unbiased estimate; PyTorch's `unbiased` flag may stand there too.
Tensor var(const Tensor& self, const Dims& dim = {}, double correction = 1, bool keepdim = false);
/// Its square root.
Tensor std(const Tensor& self, const Dims& dim = {}, double correction = 1, bool keepdim = false);
/// Together with the mean: (var, mean) and (std, mean).
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, const Dims& dim = {}, double correction = 1,
                                    bool keepdim = false);
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, const Dims& dim = {}, double correction = 1,
                                    bool keepdim = false);

}  // namespace tensora
