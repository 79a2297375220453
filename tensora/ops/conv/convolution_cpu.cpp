#include "tensora/ops/conv/convolution.h"

#include <optional>

#include "tensora/backend/cpu/copy.h"
#include "tensora/backend/cpu/gemm.h"
#include "tensora/backend/cpu/parts.h"
#include "tensora/ops/conv/direct_weight.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

/// A view whose positions are evenly spaced within an image: itself, or a contiguous copy.
class EvenlySpaced {
 public:
  explicit EvenlySpaced(const View& view) : view_(view) {
    if (volumes_of<char>(view).evenly_spaced()) return;
    copy_.emplace(static_cast<int64_t>(view.bytes()));
    view_.data = copy_->data();
    view_.strides = contiguous_strides(view.sizes);
    view_.update();
    copy_elements(view, view_);
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<Buffer<char>> copy_;
};

/// One channel per group on one side.
bool is_direct(int64_t in_channels, int64_t out_channels, int64_t groups) {
  return groups > 1 ? in_channels == 1 || out_channels == 1 : in_channels * out_channels == 1;
}

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
  if (transposed)
    gather<T>(args, transposed_parts(axes));
  else
    gather<T>(args, std::array{plain_part(axes)});
}

template <class T>
void compute_weight(const ConvolutionViews& views) {
  const EvenlySpaced small(views.small);
  const WeightArgs<T> args = {volumes_of<const T>(views.large), volumes_of<const T>(small.view()),
                              views.weight, views.attrs.groups};
  const GatherPart part = plain_part(axes_of(views));
  if (args.large.batch > 0 && is_direct(args.in_channels(), args.out_channels(), args.groups))
    DirectWeight<T>(args, part).run();
  else
    WeightProduct<T>(args, part).run();
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

void weight_grad_kernel(const KernelContext& context, const ConvolutionGradAttrs& given) {
  const View &grad = context.input(0), &input = context.input(1), &out = context.output();
  if (out.numel == 0) return;
  const ConvolutionAttrs attrs = expanded(given, grad.dim() - 2);
  const ConvolutionViews views = attrs.transposed ? ConvolutionViews{grad, input, out, attrs}
                                                  : ConvolutionViews{input, grad, out, attrs};
  visit_floating(out.dtype, context.op, [&]<class T>() { compute_weight<T>(views); });
}

}  // namespace

void register_convolution_cpu() {
  convolution_op.set_kernel(DeviceType::cpu, convolution_kernel);
  convolution_input_grad_op.set_kernel(DeviceType::cpu, input_grad_kernel);
  convolution_weight_grad_op.set_kernel(DeviceType::cpu, weight_grad_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
