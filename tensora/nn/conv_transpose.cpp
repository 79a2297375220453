#include "tensora/nn/conv_transpose.h"

#include "tensora/nn/conv_common.h"

namespace tensora::nn {

template <int Dims>
ConvTranspose<Dims>::ConvTranspose(int64_t in, int64_t out, const Shape& kernel,
                                   const ConvTransposeOptions& given)
    : in_channels(in), out_channels(out), options(given) {
  const std::string layer = name();
  check_channels(layer, in, out, given.groups);
  kernel_size = per_dim(layer, "kernel_size", kernel, Dims, 1);
  options.stride = per_dim(layer, "stride", given.stride, Dims, 1);
  options.padding = per_dim(layer, "padding", given.padding, Dims, 0);
  options.output_padding = per_dim(layer, "output_padding", given.output_padding, Dims, 0);
  options.dilation = per_dim(layer, "dilation", given.dilation, Dims, 1);
  const TensorOptions made = FactoryScope::current();
  Shape sizes = {in, out / given.groups};
  for (const int64_t size : kernel_size) sizes.push_back(size);
  weight = this->register_parameter("weight", empty(sizes, made));
  bias = this->register_parameter("bias", given.bias ? empty({out}, made) : Tensor());
  reset_parameters();
}

template <int Dims>
void ConvTranspose<Dims>::reset_parameters() {
  reset_conv_parameters(weight, bias);
}

template <int Dims>
Shape ConvTranspose<Dims>::output_padding_for(const Tensor& input, Shape output_size) const {
  if (output_size.empty()) return options.output_padding;
  const std::string layer = name();
  check(input.dim() == Dims + 1 || input.dim() == Dims + 2, layer, ": expected an input of ",
        Dims + 1, " or ", Dims + 2, " dims, got shape ", input.sizes());
  if (output_size.size() == input.dim())
    while (output_size.size() > Dims) output_size.erase(0);
  check(output_size.size() == Dims, layer, ": output_size must have ", Dims, " or ", input.dim(),
        " numbers, got ", output_size);
  Shape result;
  for (int d = 0; d < Dims; ++d) {
    const int64_t in = input.size(d - Dims), stride = options.stride[d];
    const int64_t least =
        (in - 1) * stride - 2 * options.padding[d] + options.dilation[d] * (kernel_size[d] - 1) + 1;
    check(output_size[d] >= least && output_size[d] < least + stride, layer, ": output_size ",
          output_size[d], " of dim ", d, " is not possible; expected ", least, " to ",
          least + stride - 1);
    result.push_back(output_size[d] - least);
  }
  return result;
}

template <int Dims>
Tensor ConvTranspose<Dims>::forward(const Tensor& input, const Shape& output_size) const {
  using Function = Tensor(const Tensor&, const Tensor&, const Tensor&, const Shape&, const Shape&,
                          const Shape&, int64_t, const Shape&);
  constexpr auto convolve = Dims == 1   ? static_cast<Function*>(conv_transpose1d)
                            : Dims == 2 ? static_cast<Function*>(conv_transpose2d)
                                        : static_cast<Function*>(conv_transpose3d);
  return convolve(input, weight, bias, options.stride, options.padding,
                  output_padding_for(input, output_size), options.groups, options.dilation);
}

template <int Dims>
std::string ConvTranspose<Dims>::name() const {
  return concat("ConvTranspose", Dims, "d");
}

template <int Dims>
std::string ConvTranspose<Dims>::extra_repr() const {
  std::string text =
      concat(in_channels, ", ", out_channels, ", kernel_size=", repr_tuple(kernel_size),
             ", stride=", repr_tuple(options.stride));
  if (options.padding != Shape::filled(Dims, 0)) text += ", padding=" + repr_tuple(options.padding);
  return text +
         repr_conv_rest(options.dilation, options.output_padding, options.groups, bias.defined());
}

template class ConvTranspose<1>;
template class ConvTranspose<2>;
template class ConvTranspose<3>;

}  // namespace tensora::nn
