#include "tensora/distributed/sync_batch_norm.h"

#include "tensora/autograd/function.h"
#include "tensora/autograd/grad_mode.h"
#include "tensora/dispatch/data_of.h"
#include "tensora/nn/norm_base_impl.h"
#include "tensora/ops.h"

namespace tensora::distributed {
namespace {

using GroupPtr = std::shared_ptr<ProcessGroup>;

std::vector<int64_t> other_dims(const Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < x.dim(); ++dim)
    if (dim != 1) dims.push_back(dim);
  return dims;
}

// One number per channel, in the shape that broadcasts against `x`.
Tensor per_channel(const Tensor& numbers, const Tensor& x) {
  Shape sizes;
  for (int64_t dim = 0; dim < x.dim(); ++dim) sizes.push_back(dim == 1 ? x.size(1) : 1);
  return numbers.reshape(sizes);
}

Tensor summed(const Tensor& x, const Shape& dims) { return x.sum(dims); }

Shape shape_of(const std::vector<int64_t>& dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.push_back(dim);
  return shape;
}

// The sum over all ranks, in place.
Tensor over_ranks(const Tensor& numbers, ProcessGroup& group) {
  const Tensor sum = numbers.contiguous();
  group.all_reduce(data_of(sum))->wait();
  return sum;
}

// (input - mean) / deviation of all ranks; gives mean, variance and count too.
struct Normalize : Function<Normalize> {
  static TensorList forward(Context& context, const Tensor& x, const GroupPtr& group, double eps) {
    const Shape dims = shape_of(other_dims(x));
    const Tensor wide = x.to(promote_types(x.dtype(), kFloat32));
    const int64_t channels = x.size(1);
    const Tensor own = full({1}, double(x.numel()) / double(channels), {.dtype = wide.dtype()});
    const Tensor sums = over_ranks(cat(TensorList{summed(wide, dims), own.to(x.device())}), *group);
    const Tensor count = sums.narrow(0, channels, 1).clone();
    const Tensor mean = sums.narrow(0, 0, channels) / count;
    const Tensor centred = wide - per_channel(mean, x);
    const Tensor variance = over_ranks(summed(centred * centred, dims), *group) / count;
    const Tensor scale = (variance + eps).rsqrt();
    const Tensor normal = centred * per_channel(scale, x);
    context.save_for_backward({normal, scale, count});
    context.data["group"] = group;
    const Tensor result = normal.to(x.dtype());
    context.mark_non_differentiable({mean, variance, count});
    return {result, mean, variance, count};
  }
  static TensorList backward(Context& context, const TensorList& grads) {
    const TensorList saved = context.saved_tensors();
    const Tensor &normal = saved[0], &scale = saved[1], &count = saved[2];
    const auto group = std::any_cast<GroupPtr>(context.data["group"]);
    const Shape dims = shape_of(other_dims(normal));
    const Tensor grad = grads[0].to(normal.dtype());
    const int64_t channels = normal.size(1);
    const Tensor sums =
        over_ranks(cat(TensorList{summed(grad, dims), summed(grad * normal, dims)}), *group) /
        count;
    const Tensor centred = grad - per_channel(sums.narrow(0, 0, channels), normal) -
                           normal * per_channel(sums.narrow(0, channels, channels), normal);
    return {(centred * per_channel(scale, normal)).to(grads[0].dtype()), Tensor(), Tensor()};
  }
};

}  // namespace

SyncBatchNorm::SyncBatchNorm(int64_t features, const nn::BatchNormOptions& given,
                             std::shared_ptr<ProcessGroup> group)
    : NormBase("SyncBatchNorm", features, given), group_(std::move(group)) {
  if (!group_) group_ = world();
}

Tensor SyncBatchNorm::forward(const Tensor& input) const {
  check(input.dim() >= 2 && input.size(1) == num_features,
        "SyncBatchNorm: expected an input of at least 2 dims with ", num_features,
        " channels in dim 1, got shape ", input.sizes());
  const bool batch_statistics = is_training() || !options.track_running_stats;
  if (!batch_statistics)
    return batch_norm(input, running_mean, running_var, weight, bias, false, 0, options.eps);
  const TensorList parts = Normalize::apply(input, group_, options.eps);
  Tensor result = parts[0];
  if (weight.defined()) result = result * per_channel(weight, input).to(input.dtype());
  if (bias.defined()) result = result + per_channel(bias, input).to(input.dtype());
  if (!is_training() || !options.track_running_stats) return result;
  const no_grad silent;
  num_batches_tracked.add_(1);
  const Tensor unbiased = parts[2] * (parts[3] / (parts[3] - 1).clamp_min(1));
  const DType dtype = running_mean.dtype();
  const Tensor part = options.momentum
                          ? full({}, *options.momentum, {.dtype = dtype}).to(input.device())
                          : num_batches_tracked.to(dtype).reciprocal();
  running_mean.add_((parts[1] - running_mean) * part);
  running_var.add_((unbiased - running_var) * part);
  return result;
}

}  // namespace tensora::distributed

template class tensora::nn::NormBase<tensora::distributed::SyncBatchNorm>;
