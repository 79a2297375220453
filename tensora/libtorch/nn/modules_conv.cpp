#include "tensora/libtorch/nn/modules_conv.h"

#include "tensora/nn/conv.h"
#include "tensora/nn/conv_common.h"
#include "tensora/ops.h"

namespace torch::nn {

namespace {

template <size_t D>
tensora::ConvPadding padding_of(const conv_padding_t<D>& padding) {
  if (const auto* zeros = std::get_if<ExpandingArray<D>>(&padding)) return tensora::Shape(*zeros);
  return std::holds_alternative<enumtype::kSame>(padding) ? "same" : "valid";
}

template <size_t D>
bool is_number(const ExpandingArray<D>& array, int64_t number) {
  return std::all_of(array->begin(), array->end(), [&](int64_t value) { return value == number; });
}

// The zeros on both sides of each dim that "same" asks for, the last dim first.
template <size_t D>
std::vector<int64_t> pads_of(const ConvOptions<D>& options) {
  std::vector<int64_t> pads(2 * D, 0);
  const auto* zeros = std::get_if<ExpandingArray<D>>(&options.padding());
  for (size_t i = 0; i < D; ++i) {
    int64_t before = 0, after = 0;
    if (zeros) {
      before = after = (**zeros)[i];
    } else if (std::holds_alternative<enumtype::kSame>(options.padding())) {
      const int64_t total = (*options.dilation())[i] * ((*options.kernel_size())[i] - 1);
      before = total / 2;
      after = total - before;
    }
    pads[2 * (D - 1 - i)] = before;
    pads[2 * (D - 1 - i) + 1] = after;
  }
  return pads;
}

template <size_t D, class Options>
void print_conv(std::ostream& stream, const char* name, const Options& options) {
  stream << std::boolalpha << "torch::nn::" << name << D << "d(" << options.in_channels() << ", "
         << options.out_channels() << ", kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride();
}

template <class Options>
void print_conv_end(std::ostream& stream, const Options& options) {
  if (!is_number(options.dilation(), 1)) stream << ", dilation=" << options.dilation();
  if constexpr (requires { options.output_padding(); })
    if (!is_number(options.output_padding(), 0))
      stream << ", output_padding=" << options.output_padding();
  if (options.groups() != 1) stream << ", groups=" << options.groups();
  if (!options.bias()) stream << ", bias=false";
  if (options.padding_mode() != Choice(kZeros))
    stream << ", padding_mode=" << options.padding_mode();
  stream << ")";
}

}  // namespace

template <size_t D, class Derived>
void ConvNdImpl<D, Derived>::reset() {
  tensora::check(options.in_channels() > 0 && options.groups() > 0 && options.out_channels() > 0,
                 "in_channels, groups and out_channels must be a positive integer.");
  tensora::check(options.in_channels() % options.groups() == 0,
                 "in_channels must be divisible by groups");
  tensora::check(options.out_channels() % options.groups() == 0,
                 "out_channels must be divisible by groups");
  tensora::check(
      !std::holds_alternative<enumtype::kSame>(options.padding()) || is_number(options.stride(), 1),
      "padding='same' is not supported for strided convolutions");
  std::vector<int64_t> sizes = {options.out_channels(), options.in_channels() / options.groups()};
  sizes.insert(sizes.end(), options.kernel_size()->begin(), options.kernel_size()->end());
  weight = this->register_parameter("weight", torch::empty(sizes));
  bias = this->register_parameter(
      "bias", options.bias() ? torch::empty({options.out_channels()}) : Tensor());
  reset_parameters();
}

template <size_t D, class Derived>
void ConvNdImpl<D, Derived>::reset_parameters() {
  tensora::nn::reset_conv_parameters(weight, bias);
}

template <size_t D, class Derived>
void ConvNdImpl<D, Derived>::pretty_print(std::ostream& stream) const {
  print_conv<D>(stream, "Conv", options);
  if (const auto* zeros = std::get_if<ExpandingArray<D>>(&options.padding())) {
    if (!is_number(*zeros, 0)) stream << ", padding=" << *zeros;
  } else {
    stream << ", padding='" << padding_of<D>(options.padding()).rule() << "'";
  }
  print_conv_end(stream, options);
}

template <size_t D, class Derived>
Tensor ConvNdImpl<D, Derived>::forward(const Tensor& input) {
  const bool zeros = options.padding_mode() == Choice(kZeros);
  const Tensor x =
      zeros ? input : tensora::pad(input, pads_of<D>(options), options.padding_mode().text);
  const tensora::ConvPadding padding =
      zeros ? padding_of<D>(options.padding()) : tensora::ConvPadding(0);
  if constexpr (D == 1)
    return tensora::conv1d(x, weight, bias, options.stride(), padding, options.dilation(),
                           options.groups());
  else if constexpr (D == 2)
    return tensora::conv2d(x, weight, bias, options.stride(), padding, options.dilation(),
                           options.groups());
  else
    return tensora::conv3d(x, weight, bias, options.stride(), padding, options.dilation(),
                           options.groups());
}

template <size_t D, class Derived>
void ConvTransposeNdImpl<D, Derived>::reset() {
  layer_.emplace(options.in_channels(), options.out_channels(), options.kernel_size(),
                 tensora::nn::ConvTransposeOptions{.stride = options.stride(),
                                                   .padding = options.padding(),
                                                   .output_padding = options.output_padding(),
                                                   .groups = options.groups(),
                                                   .bias = options.bias(),
                                                   .dilation = options.dilation()});
  this->adopt(*layer_);
  weight = layer_->weight;
  bias = layer_->bias;
}

template <size_t D, class Derived>
void ConvTransposeNdImpl<D, Derived>::reset_parameters() {
  tensora::nn::reset_conv_parameters(weight, bias);
}

template <size_t D, class Derived>
void ConvTransposeNdImpl<D, Derived>::pretty_print(std::ostream& stream) const {
  print_conv<D>(stream, "ConvTranspose", options);
  if (!is_number(options.padding(), 0)) stream << ", padding=" << options.padding();
  print_conv_end(stream, options);
}

template <size_t D, class Derived>
Tensor ConvTransposeNdImpl<D, Derived>::forward(const Tensor& input,
                                                const std::optional<tensora::Shape>& output_size) {
  tensora::check(options.padding_mode() == Choice(kZeros),
                 "Only `zeros` padding mode is supported for ConvTranspose");
  if (weight.is_same(layer_->weight) && bias.is_same(layer_->bias))
    return layer_->forward(input, output_size.value_or(tensora::Shape()));
  tensora::check(!output_size,
                 "ConvTranspose: with a weight that was assigned, output_size must "
                 "be left out");
  const auto call = [&](auto function) {
    return function(input, weight, bias, options.stride(), options.padding(),
                    options.output_padding(), options.groups(), options.dilation());
  };
  using Function =
      Tensor(const Tensor&, const Tensor&, const Tensor&, const tensora::Shape&,
             const tensora::Shape&, const tensora::Shape&, int64_t, const tensora::Shape&);
  Function* const functions[] = {tensora::conv_transpose1d, tensora::conv_transpose2d,
                                 tensora::conv_transpose3d};
  return call(functions[D - 1]);
}

template class ConvNdImpl<1, Conv1dImpl>;
template class ConvNdImpl<2, Conv2dImpl>;
template class ConvNdImpl<3, Conv3dImpl>;
template class ConvTransposeNdImpl<1, ConvTranspose1dImpl>;
template class ConvTransposeNdImpl<2, ConvTranspose2dImpl>;
template class ConvTransposeNdImpl<3, ConvTranspose3dImpl>;

}  // namespace torch::nn
