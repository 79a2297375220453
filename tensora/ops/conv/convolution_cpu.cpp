#include "tensora/ops/conv/convolution.h"

#include "tensora/backend/cpu/conv_library.h"
#include "tensora/backend/cpu/copy.h"
#include "tensora/backend/cpu/gemm.h"
#include "tensora/ops/conv/direct.h"
#include "tensora/ops/conv/winograd_product.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

/// A kernel of one element that visits every position.
bool is_pointwise(const ConvolutionAxes& axes) {
  return std::all_of(axes.begin(), axes.end(), [](const ConvolutionAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.padding == 0;
  });
}

/// out[n] = weight @ in[n] + bias for every image and group, positions being columns.
template <class T>
void multiply_pointwise(const GatherArgs<T>& args) {
  const Volumes<const T>& in = args.in;
  const Volumes<T>& out = args.out;
  const int64_t positions = in.positions(), rows = args.out_channels();
  const bool has_bias = args.bias != nullptr;
  for (int64_t g = 0; g < args.groups; ++g)
    gemm(Gemm<T>{.batch = in.batch,
                 .m = rows,
                 .n = positions,
                 .k = args.in_channels(),
                 .a = {args.weight.data + g * args.weight.group_stride, 0, args.weight.out_stride,
                       args.weight.in_stride},
                 .b = {in.data + g * args.in_channels() * in.channel_stride, in.batch_stride,
                       in.channel_stride, in.position_stride()},
                 .out = {out.data + g * rows * out.channel_stride, out.batch_stride,
                         out.channel_stride, out.position_stride()},
                 .beta = has_bias ? 1. : 0.});
}

void put_bias(const View& bias, const View& out) {
  View spread = bias;
  spread.sizes = Shape::filled(out.dim(), 1);
  spread.sizes[1] = bias.sizes[0];
  spread.strides = Strides::filled(out.dim(), 0);
  spread.strides[1] = bias.strides[0];
  spread.update();
  copy_elements(spread, out);
}

template <class T>
void gather(const GatherArgs<T>& args, std::span<const GatherPart> parts) {
  const bool direct = is_direct(args.in_channels(), args.out_channels(), args.groups);
  for (const GatherPart& part : parts) {
    if (!direct)
      GatherProduct<T>(args, part).run();
    else if (args.in.channels_inside())
      DirectPixels<T>(args, part).run();
    else
      direct_rows<T>(args, part);
  }
}

bool has_strides(const View& view, const Strides& strides) {
  for (int d = 0; d < view.dim(); ++d)
    if (view.sizes[d] != 1 && view.strides[d] != strides[d]) return false;
  return true;
}

/// See Note [Convolutions by oneDNN].
bool convolve_in_library(const ConvolutionViews& views, bool transposed, const View* bias) {
  const View &source = transposed ? views.small : views.large,
             &result = transposed ? views.large : views.small, &weight = views.weight;
  const auto is_last = [](const View& view) {
    return has_strides(view, channels_last_strides(view.sizes));
  };
  const bool last = is_last(source) && is_last(result);
  if ((!last && !(source.contiguous && result.contiguous)) || source.numel == 0 ||
      (bias && bias->strides[0] != 1 && bias->numel > 1))
    return false;
  LibraryConvolution args{.transposed = transposed,
                          .channels_last = last,
                          .spatial = source.dim() - 2,
                          .batch = source.sizes[0],
                          .large_channels = views.large.sizes[1],
                          .small_channels = views.small.sizes[1],
                          .groups = views.attrs.groups,
                          .source = source.as<const float>(),
                          .weight = weight.as<const float>(),
                          .bias = bias ? bias->as<const float>() : nullptr,
                          .result = result.as<float>()};
  for (int d = 0; d < weight.dim(); ++d)
    args.weight_strides[static_cast<size_t>(d)] = weight.strides[d];
  for (int d = 0; d < args.spatial; ++d)
    args.axis[static_cast<size_t>(d)] = {views.large.sizes[d + 2], views.small.sizes[d + 2],
                                         weight.sizes[d + 2],      views.attrs.stride[d],
                                         views.attrs.padding[d],   views.attrs.dilation[d]};
  return convolve_by_library(args);
}

bool convolve_by_winograd(const GatherArgs<float>& args, const ConvolutionAxes& axes,
                          bool transposed) {
  if (!winograd::is_worth_it(axes, args.in.batch, args.in.channels, args.out.channels,
                             args.groups) ||
      !winograd::is_readable(args.in) || !winograd::is_readable(args.out))
    return false;
  const auto padding = [&](size_t d) {
    return transposed ? axes[d].kernel - 1 - axes[d].padding : axes[d].padding;
  };
  WinogradProduct(args, {padding(1), padding(2), transposed}).run();
  return true;
}

/// small from large, or large from small; the operand that is the result is written.
template <class T>
void compute_volumes(const ConvolutionViews& views, bool transposed, const View* bias) {
  const View &result = transposed ? views.large : views.small, &weight = views.weight;
  const View& source = transposed ? views.small : views.large;
  const ConvolutionAxes axes = axes_of(views);
  const int64_t groups = views.attrs.groups;
  GatherArgs<T> args;
  args.groups = groups;
  args.in = volumes_of<const T>(source);
  args.out = volumes_of<T>(result);
  const Volumes<const T> taps = volumes_of<const T>(weight);
  args.weight = {taps.data, taps.batch / groups * taps.batch_stride,
                 transposed ? taps.channel_stride : taps.batch_stride,
                 transposed ? taps.batch_stride : taps.channel_stride, taps.stride};
  if (bias) {
    args.bias = bias->as<const T>();
    args.bias_stride = bias->strides[0];
  }
  const bool direct = is_direct(args.in_channels(), args.out_channels(), groups);
  if (is_pointwise(axes) && !direct && args.in.evenly_spaced() && args.out.evenly_spaced()) {
    if (bias) put_bias(*bias, result);
    return multiply_pointwise(args);
  }
  if constexpr (std::is_same_v<T, float>)
    if (convolve_by_winograd(args, axes, transposed) ||
        convolve_in_library(views, transposed, bias))
      return;
  if (transposed)
    gather<T>(args, transposed_parts(axes));
  else
    gather<T>(args, std::array{plain_part(axes)});
}

void volumes_kernel(const KernelContext& context, const ConvolutionViews& views, bool transposed,
                    const View* bias) {
  if (context.output().numel == 0) return;
  visit_floating(context.output().dtype, context.op,
                 [&]<class T>() { compute_volumes<T>(views, transposed, bias); });
}

void convolution_kernel(const KernelContext& context, const ConvolutionAttrs& given) {
  const View &input = context.input(0), &weight = context.input(1), &out = context.output();
  const ConvolutionAttrs attrs = expanded(given, input.dim() - 2);
  const View* const bias = context.in.size() > 2 ? context.in[2] : nullptr;
  if (attrs.transposed)
    volumes_kernel(context, {out, input, weight, attrs}, true, bias);
  else
    volumes_kernel(context, {input, out, weight, attrs}, false, bias);
}

void input_grad_kernel(const KernelContext& context, const ConvolutionGradAttrs& given) {
  const View &grad = context.input(0), &weight = context.input(1), &out = context.output();
  const ConvolutionAttrs attrs = expanded(given, grad.dim() - 2);
  if (attrs.transposed)
    volumes_kernel(context, {grad, out, weight, attrs}, false, nullptr);
  else
    volumes_kernel(context, {out, grad, weight, attrs}, true, nullptr);
}

}  // namespace

void register_convolution_cpu() {
  convolution_op.set_kernel(DeviceType::cpu, convolution_kernel);
  convolution_input_grad_op.set_kernel(DeviceType::cpu, input_grad_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
