#include "tensora/nn/conv.h"

#include "tensora/nn/conv_common.h"
#include "tensora/ops/resample/pad.h"

namespace tensora::nn {

namespace {

ConvPadding checked_padding(const std::string& layer, const ConvPadding& padding,
                            const Shape& stride, int dims) {
  if (!padding.is_rule()) return per_dim(layer, "padding", padding.zeros(), dims, 0);
  if (padding.rule() == "valid") return "valid";  // a text that outlives the caller's
  check(padding.rule() == "same", layer, ": padding must be numbers, 'same' or 'valid', got '",
        padding.rule(), "'");
  for (const int64_t step : stride)
    check(step == 1, layer, ": padding 'same' needs a stride of 1, got ", stride);
  return "same";
}

std::string_view checked_mode(const std::string& layer, std::string_view mode) {
  for (const std::string_view known : {"zeros", "reflect", "replicate", "circular"})
    if (mode == known) return known;
  fail(layer, ": padding_mode must be zeros, reflect, replicate or circular, got '", mode, "'");
}

// For the modes that the convolution itself does not know.
std::vector<int64_t> pads_of(const ConvOptions& options, const Shape& kernel) {
  std::vector<int64_t> pads;
  for (int d = kernel.size() - 1; d >= 0; --d) {
    const int64_t total = options.dilation[d] * (kernel[d] - 1);
    int64_t before = 0, after = 0;
    if (!options.padding.is_rule())
      before = after = options.padding.zeros()[d];
    else if (options.padding.rule() == "same")
      before = total / 2, after = total - before;
    pads.insert(pads.end(), {before, after});
  }
  return pads;
}

}  // namespace

template <int Dims>
Conv<Dims>::Conv(int64_t in, int64_t out, const Shape& kernel, const ConvOptions& given)
    : in_channels(in), out_channels(out), options(given) {
  const std::string layer = name();
  check_channels(layer, in, out, given.groups);
  kernel_size = per_dim(layer, "kernel_size", kernel, Dims, 1);
  options.stride = per_dim(layer, "stride", given.stride, Dims, 1);
  options.dilation = per_dim(layer, "dilation", given.dilation, Dims, 1);
  options.padding = checked_padding(layer, given.padding, options.stride, Dims);
  options.padding_mode = checked_mode(layer, given.padding_mode);
  pads_ = pads_of(options, kernel_size);
  const TensorOptions made = FactoryScope::current();
  Shape sizes = {out, in / given.groups};
  for (const int64_t size : kernel_size) sizes.push_back(size);
  weight = this->register_parameter("weight", empty(sizes, made));
  bias = this->register_parameter("bias", given.bias ? empty({out}, made) : Tensor());
  reset_parameters();
}

template <int Dims>
void Conv<Dims>::reset_parameters() {
  reset_conv_parameters(weight, bias);
}

template <int Dims>
Tensor Conv<Dims>::forward(const Tensor& input) const {
  constexpr auto convolve = Dims == 1   ? static_cast<ConvFunction*>(conv1d)
                            : Dims == 2 ? static_cast<ConvFunction*>(conv2d)
                                        : static_cast<ConvFunction*>(conv3d);
  const ConvOptions& o = options;
  if (o.padding_mode == "zeros")
    return convolve(input, weight, bias, o.stride, o.padding, o.dilation, o.groups);
  return convolve(pad(input, pads_, o.padding_mode), weight, bias, o.stride, 0, o.dilation,
                  o.groups);
}

template <int Dims>
std::string Conv<Dims>::name() const {
  return concat("Conv", Dims, "d");
}

template <int Dims>
std::string Conv<Dims>::extra_repr() const {
  const ConvOptions& o = options;
  std::string text =
      concat(in_channels, ", ", out_channels, ", kernel_size=", repr_tuple(kernel_size),
             ", stride=", repr_tuple(o.stride));
  if (o.padding.is_rule())
    text += concat(", padding=", o.padding.rule());
  else if (o.padding.zeros() != Shape::filled(Dims, 0))
    text += ", padding=" + repr_tuple(o.padding.zeros());
  text += repr_conv_rest(o.dilation, {}, o.groups, bias.defined());
  if (o.padding_mode != "zeros") text += concat(", padding_mode=", o.padding_mode);
  return text;
}

template class Conv<1>;
template class Conv<2>;
template class Conv<3>;

}  // namespace tensora::nn
