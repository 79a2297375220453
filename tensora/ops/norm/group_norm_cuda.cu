#include "tensora/ops/norm/channel_kernels.cuh"
#include "tensora/ops/norm/group_norm_ops.h"

// Samples and channels together are the planes of one large sample, to which the loops of
// batch_norm apply: plane p belongs to row p / (channels per group) and to channel p % channels.

namespace tensora::cuda {
namespace {

const View* optional_input(const KernelContext& context, size_t i) {
  return i < context.in.size() ? context.in[i] : nullptr;
}

View flat(View view) {
  view.sizes = {view.numel};
  view.strides = {1};
  view.update();
  return view;
}

ChannelValues by_group(const View& values, int64_t per_group) {
  const View all = flat(values);
  ChannelValues result = channel_values(&all);
  result.repeat = static_cast<unsigned>(per_group);
  return result;
}
ChannelValues by_channel(const View* values, int64_t channels) {
  ChannelValues result = channel_values(values);
  result.count = static_cast<unsigned>(channels);
  return result;
}

/// An input in row-major order; copied if it has another.
class RowMajor {
 public:
  RowMajor(const KernelContext& context, const View& view) : view_(view) {
    if (view.contiguous) return;
    scratch_.emplace(context.device.index, view.bytes());
    view_.data = scratch_->data();
    view_.strides = contiguous_strides(view.sizes);
    view_.update();
    copy_elements(context.op, view, view_);
  }
  const View& view() const { return view_; }

 private:
  std::optional<Scratch> scratch_;
  View view_;
};

void group_norm_kernel(const KernelContext& context, const GroupNormAttrs& attrs) {
  const RowMajor x(context, context.input(0));
  const int64_t channels = x.view().sizes[1];
  if (context.output(1).numel == 0) return;
  const int64_t per_group = channels / attrs.num_groups;
  const View groups = as_planes(x.view(), std::max<int64_t>(1, per_group));
  if (channels > 0)
    find_moments(context, groups, reads_planes(groups), flat(context.output(1)),
                 flat(context.output(2)));
  if (x.view().numel == 0) return;
  const View in = as_planes(x.view(), 1), out = as_planes(context.output(), 1);
  const View* const views[2] = {&out, &in};
  ApplyParams params{};
  const ChannelGrid grid = arrange_channels<2>(
      views, reads_planes(in), device_info(context.device.index).multiprocessors, params.arrays);
  params.mean = by_group(context.output(1), per_group);
  params.variance = by_group(context.output(2), per_group);
  params.weight = by_channel(optional_input(context, 1), channels);
  params.bias = by_channel(optional_input(context, 2), channels);
  params.eps = attrs.eps;
  visit_grid(grid, in.dtype, [&]<bool kPlanes, class C, int kPack>() {
    Launch{context.op, context.device.index}(apply_kernel<kPlanes, C, kPack>, grid.blocks,
                                             grid.block, params);
  });
}

struct RowsParams {
  const ChannelSums<double>* partial;  // parts x planes
  unsigned parts, planes, rows, per_group;
  ChannelValues variance, weight;
  double eps, count;
  ChannelSums<double>* plane_sums;  // planes
  ChannelSums<double>* common;      // rows: see ChannelGradientParams
};

// A warp per row: the sums of its planes, and the means that they make with their weights.
__global__ void __launch_bounds__(kChannelThreads)
    finish_rows(const __grid_constant__ RowsParams params) {
  const unsigned row = (blockIdx.x * kChannelThreads + threadIdx.x) / kWarpThreads;
  if (row >= params.rows) return;  // a whole warp
  ChannelSums<double> total{0, 0};
  for (unsigned d = 0; d < params.per_group; ++d) {
    const unsigned plane = row * params.per_group + d;
    const ChannelSums<double> sums = total_sums(params.partial, params.parts, params.planes, plane);
    const double weight = params.weight.at(plane, 1.0);
    total.first += sums.first * weight;
    total.second += sums.second * weight;
    if (threadIdx.x % kWarpThreads == 0) params.plane_sums[plane] = sums;
  }
  if (threadIdx.x % kWarpThreads != 0) return;
  const double rstd = 1 / sqrt(params.variance.at(row * params.per_group, 1.0) + params.eps);
  const double share = -rstd / params.count;
  params.common[row] = {share * total.first, share * rstd * rstd * total.second};
}

struct ParameterParams {
  const ChannelSums<double>* plane_sums;
  unsigned samples, channels;
  ChannelValues variance;
  double eps;
  char *of_weight, *of_bias;  // or null
  DType dtype;
  int bytes;
};

// A warp per channel: sums over the samples.
__global__ void __launch_bounds__(kChannelThreads)
    finish_parameters(const __grid_constant__ ParameterParams params) {
  const unsigned channel = (blockIdx.x * kChannelThreads + threadIdx.x) / kWarpThreads;
  if (channel >= params.channels) return;  // a whole warp
  ChannelSums<double> total{0, 0};
  for (unsigned n = threadIdx.x % kWarpThreads; n < params.samples; n += kWarpThreads) {
    const unsigned plane = n * params.channels + channel;
    const ChannelSums<double> sums = params.plane_sums[plane];
    total.first += sums.first;
    if (sums.second != 0)
      total.second += sums.second / sqrt(params.variance.at(plane, 1.0) + params.eps);
  }
  total = across_group<kWarpThreads>(total, [](ChannelSums<double> a, ChannelSums<double> b) {
    return ChannelSums<double>{a.first + b.first, a.second + b.second};
  });
  if (threadIdx.x % kWarpThreads != 0) return;
  if (params.of_weight)
    store_any<double>(params.of_weight + channel * params.bytes, params.dtype, total.second);
  if (params.of_bias)
    store_any<double>(params.of_bias + channel * params.bytes, params.dtype, total.first);
}

void backward_kernel(const KernelContext& context, const GroupNormBackwardAttrs& attrs) {
  const int device = context.device.index;
  const Launch launch{context.op, device};
  const int processors = device_info(device).multiprocessors;
  const RowMajor grad(context, context.input(0)), x(context, context.input(1)),
      mean(context, context.input(2)), variance(context, context.input(3));
  const int64_t samples = x.view().sizes[0], channels = x.view().sizes[1];
  const int64_t per_group = std::max<int64_t>(1, channels / attrs.num_groups);
  if (channels == 0) return;
  const View gradients = as_planes(grad.view(), 1), elements = as_planes(x.view(), 1);
  const DType dtype = elements.dtype;
  const bool planes = reads_planes(elements);
  ChannelGradientParams params{};
  params.mean = by_group(mean.view(), per_group);
  params.variance = by_group(variance.view(), per_group);
  params.weight = by_channel(optional_input(context, 4), channels);
  params.eps = attrs.eps;

  const View* const read[2] = {&gradients, &elements};
  ChannelArrays<2> arrays{};
  const ChannelGrid sums_grid = arrange_channels<2>(read, planes, processors, arrays);
  const Scratch partial(device, sums_bytes(arrays.parts, arrays.channels)),
      plane_sums(device, sums_bytes(1, arrays.channels)),
      common(device, sums_bytes(1, arrays.channels));
  const auto sums_in = [](const Scratch& scratch) {
    return reinterpret_cast<ChannelSums<double>*>(scratch.data());
  };
  visit_grid(sums_grid, dtype, [&]<bool kPlanes, class C, int kPack>() {
    launch(gradient_sums<kPlanes, C, kPack>, sums_grid.blocks, sums_grid.block, arrays, params.mean,
           sums_in(partial));
  });
  RowsParams rows{};
  rows.partial = sums_in(partial);
  rows.parts = arrays.parts;
  rows.planes = arrays.channels;
  rows.rows = static_cast<unsigned>(samples * attrs.num_groups);
  rows.per_group = static_cast<unsigned>(per_group);
  rows.variance = params.variance;
  rows.weight = params.weight;
  rows.eps = attrs.eps;
  rows.count = static_cast<double>(per_group * elements.sizes[2]);
  rows.plane_sums = sums_in(plane_sums);
  rows.common = sums_in(common);
  launch(finish_rows, warps_for(rows.rows), dim3(kChannelThreads), rows);
  if (attrs.weight || attrs.bias) {
    size_t next = 1;
    ParameterParams finish{};
    finish.plane_sums = rows.plane_sums;
    finish.samples = static_cast<unsigned>(samples);
    finish.channels = static_cast<unsigned>(channels);
    finish.variance = params.variance;
    finish.eps = attrs.eps;
    finish.dtype = context.output(1).dtype;
    finish.bytes = static_cast<int>(element_size(finish.dtype));
    if (attrs.weight) finish.of_weight = context.output(next++).as<char>();
    if (attrs.bias) finish.of_bias = context.output(next).as<char>();
    launch(finish_parameters, warps_for(finish.channels), dim3(kChannelThreads), finish);
  }
  if (elements.numel == 0) return;
  params.common = rows.common;
  params.per_common = rows.per_group;
  const View out = as_planes(context.output(), 1);
  const View* const views[3] = {&out, &gradients, &elements};
  const ChannelGrid grid = arrange_channels<3>(views, planes, processors, params.arrays);
  visit_grid(grid, dtype, [&]<bool kPlanes, class C, int kPack>() {
    launch(gradient_kernel<kPlanes, C, kPack>, grid.blocks, grid.block, params);
  });
}

}  // namespace

void register_group_norm_cuda() {
  group_norm_op.set_kernel(DeviceType::cuda, group_norm_kernel);
  group_norm_backward_op.set_kernel(DeviceType::cuda, backward_kernel);
}

}  // namespace tensora::cuda
