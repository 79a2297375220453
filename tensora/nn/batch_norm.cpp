#include "tensora/nn/batch_norm.h"

#include "tensora/nn/norm_base_impl.h"
#include "tensora/ops.h"
#include "tensora/ops/norm/batch_norm.h"
#include "tensora/ops/norm/batch_norm_relu_op.h"

namespace tensora::nn {

template <int Dims>
BatchNorm<Dims>::BatchNorm(int64_t features, const BatchNormOptions& given)
    : NormBase<BatchNorm<Dims>>(concat("BatchNorm", Dims, "d"), features, given) {}

template <int Dims>
Tensor BatchNorm<Dims>::forward(const Tensor& input) const {
  const bool fits = input.dim() == Dims + 2 || (Dims == 1 && input.dim() == 2);
  check(fits, name(), ": expected ",
        Dims == 1   ? "2D or 3D"
        : Dims == 2 ? "4D"
                    : "5D",
        " input, got shape ", input.sizes());
  const auto& [eps, momentum, affine, track, with_bias] = this->options;
  if (!this->is_training() || !track)
    return batch_norm(input, this->running_mean, this->running_var, this->weight, this->bias,
                      !track, 0, eps);
  {
    const no_grad scope;
    this->num_batches_tracked.add_(1);
  }
  if (momentum)
    return batch_norm(input, this->running_mean, this->running_var, this->weight, this->bias, true,
                      *momentum, eps);
  // The mean over all batches moves by 1 / count. The count is on the device and stays there: the
  // batch's own statistics are taken first, as if they alone counted.
  const Tensor mean = zeros_like(this->running_mean), var = zeros_like(this->running_var);
  Tensor result = batch_norm(input, mean, var, this->weight, this->bias, true, 1, eps);
  if (input.numel() == 0) return result;  // which has no statistics
  const no_grad scope;
  this->running_mean.add_(mean.sub_(this->running_mean).div_(this->num_batches_tracked));
  this->running_var.add_(var.sub_(this->running_var).div_(this->num_batches_tracked));
  return result;
}

template <int Dims>
Tensor BatchNorm<Dims>::forward_relu(const Tensor& input, const Tensor& residual) const {
  const auto& [eps, momentum, affine, track, with_bias] = this->options;
  const bool fused = this->is_training() && track && momentum && affine && with_bias &&
                     !this->has_hooks() && input.dim() == Dims + 2 && input.numel() > 0 &&
                     (!residual.defined() || residual.dtype() == input.dtype()) &&
                     batch_norm_relu_op.has_kernel(input.device().type);
  if (!fused) {
    // Written over the norm's result, which no gradient needs.
    const Tensor result = (*this)(input);
    return relu_(residual.defined() ? result.add_(residual) : result);
  }
  {
    const no_grad scope;
    this->num_batches_tracked.add_(1);
  }
  return batch_norm_relu(input, residual, this->running_mean, this->running_var, this->weight,
                         this->bias, *momentum, eps);
}

template <int Dims>
std::string BatchNorm<Dims>::name() const {
  return concat("BatchNorm", Dims, "d");
}

template class NormBase<BatchNorm<1>>;
template class NormBase<BatchNorm<2>>;
template class NormBase<BatchNorm<3>>;
template class BatchNorm<1>;
template class BatchNorm<2>;
template class BatchNorm<3>;

}  // namespace tensora::nn
