#include <optional>

#include "tensora/backend/cpu/copy.h"
#include "tensora/ops/conv/convolution.h"
#include "tensora/ops/conv/direct_weight.h"
#include "tensora/ops/conv/winograd_weight.h"

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
  std::optional<HostScratch<char>> copy_;
};

template <class T>
void compute_weight(const ConvolutionViews& views) {
  const EvenlySpaced small(views.small);
  const WeightArgs<T> args = {volumes_of<const T>(views.large), volumes_of<const T>(small.view()),
                              views.weight, views.attrs.groups};
  const ConvolutionAxes axes = axes_of(views);
  if constexpr (std::is_same_v<T, float>)
    if (winograd::is_worth_it(axes, args.large.batch, args.in_channels(), args.out_channels(),
                              args.groups) &&
        winograd::is_readable(args.large) && winograd::is_readable(args.small))
      return WinogradWeight(args, axes[1].padding, axes[2].padding).run();
  const GatherPart part = plain_part(axes);
  if (args.large.batch > 0 && is_direct(args.in_channels(), args.out_channels(), args.groups))
    DirectWeight<T>(args, part).run();
  else
    WeightProduct<T>(args, part).run();
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

void register_convolution_weight_cpu() {
  convolution_weight_grad_op.set_kernel(DeviceType::cpu, weight_grad_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
