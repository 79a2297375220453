#include "tensora/nn/pooling.h"

#include "tensora/nn/conv_common.h"
#include "tensora/ops/pool/avg_pool.h"
#include "tensora/ops/pool/max_pool.h"

namespace tensora::nn {

namespace {

// One of three functions of one type.
template <int Dims, class Function>
constexpr Function* choose(Function* one, Function* two, Function* three) {
  return Dims == 1 ? one : Dims == 2 ? two : three;
}

std::string pool_name(std::string_view kind, int dims) { return concat(kind, "Pool", dims, "d"); }

// -1 is PyTorch's None.
std::string repr_sizes(const Shape& sizes) {
  std::string text;
  for (int i = 0; i < sizes.size(); ++i)
    text += (i ? ", " : "") + (sizes[i] < 0 ? std::string("None") : std::to_string(sizes[i]));
  return sizes.size() == 1 ? text : "(" + text + ")";
}

void check_output_size(const std::string& layer, const Shape& sizes, int dims) {
  check(sizes.size() == 1 || sizes.size() == dims, layer, ": output_size must be one number or ",
        dims, ", got ", sizes);
  for (const int64_t size : sizes)
    check(size >= -1, layer, ": output_size must be at least 0, or -1 to keep a size, got ", sizes);
}

// Checks a window's numbers and gives the stride its default.
void check_window(const std::string& layer, const Shape& kernel, Shape& stride,
                  const Shape& padding, const Shape& dilation, int dims) {
  if (stride.empty()) stride = kernel;
  per_dim(layer, "kernel_size", kernel, dims, 1);
  per_dim(layer, "stride", stride, dims, 1);
  per_dim(layer, "padding", padding, dims, 0);
  per_dim(layer, "dilation", dilation, dims, 1);
}

}  // namespace

template <int Dims>
MaxPool<Dims>::MaxPool(const Shape& kernel, const MaxPoolOptions& given)
    : kernel_size(kernel), options(given) {
  check_window(name(), kernel, options.stride, options.padding, options.dilation, Dims);
}
template <int Dims>
Tensor MaxPool<Dims>::forward(const Tensor& input) const {
  return choose<Dims>(max_pool1d, max_pool2d, max_pool3d)(
      input, kernel_size, options.stride, options.padding, options.dilation, options.ceil_mode);
}
template <int Dims>
std::tuple<Tensor, Tensor> MaxPool<Dims>::forward_with_indices(const Tensor& input) const {
  return choose<Dims>(max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices)(
      input, kernel_size, options.stride, options.padding, options.dilation, options.ceil_mode);
}
template <int Dims>
std::string MaxPool<Dims>::name() const {
  return pool_name("Max", Dims);
}
template <int Dims>
std::string MaxPool<Dims>::extra_repr() const {
  return concat("kernel_size=", repr(kernel_size), ", stride=", repr(options.stride),
                ", padding=", repr(options.padding), ", dilation=", repr(options.dilation),
                ", ceil_mode=", repr(options.ceil_mode));
}

template <int Dims>
MaxUnpool<Dims>::MaxUnpool(const Shape& kernel, const MaxUnpoolOptions& given)
    : kernel_size(kernel), options(given) {
  check_window(name(), kernel, options.stride, options.padding, 1, Dims);
}
template <int Dims>
Tensor MaxUnpool<Dims>::forward(const Tensor& input, const Tensor& indices,
                                const Shape& output_size) const {
  return choose<Dims>(max_unpool1d, max_unpool2d, max_unpool3d)(
      input, indices, kernel_size, options.stride, options.padding, output_size);
}
template <int Dims>
std::string MaxUnpool<Dims>::name() const {
  return concat("MaxUnpool", Dims, "d");
}
template <int Dims>
std::string MaxUnpool<Dims>::extra_repr() const {
  const auto tuple = [](const Shape& values) {
    return repr_tuple(values.size() == 1 ? Shape::filled(Dims, values[0]) : values);
  };
  return concat("kernel_size=", tuple(kernel_size), ", stride=", tuple(options.stride),
                ", padding=", tuple(options.padding));
}

template <int Dims>
AvgPool<Dims>::AvgPool(const Shape& kernel, const AvgPoolOptions& given)
    : kernel_size(kernel), options(given) {
  check_window(name(), kernel, options.stride, options.padding, 1, Dims);
  check(Dims > 1 || !given.divisor_override, name(), ": there is no divisor_override");
}
template <int Dims>
Tensor AvgPool<Dims>::forward(const Tensor& input) const {
  const AvgPoolOptions& o = options;
  if constexpr (Dims == 1)
    return avg_pool1d(input, kernel_size, o.stride, o.padding, o.ceil_mode, o.count_include_pad);
  else
    return (Dims == 2 ? avg_pool2d : avg_pool3d)(input, kernel_size, o.stride, o.padding,
                                                 o.ceil_mode, o.count_include_pad,
                                                 o.divisor_override);
}
template <int Dims>
std::string AvgPool<Dims>::name() const {
  return pool_name("Avg", Dims);
}
template <int Dims>
std::string AvgPool<Dims>::extra_repr() const {
  const auto print = [](const Shape& values) {
    return Dims == 1 ? repr_tuple(values) : repr(values);
  };
  return concat("kernel_size=", print(kernel_size), ", stride=", print(options.stride),
                ", padding=", print(options.padding));
}

template <int Dims>
LPPool<Dims>::LPPool(double norm, const Shape& kernel, const LPPoolOptions& given)
    : norm_type(norm), kernel_size(kernel), options(given) {
  Shape stride = given.stride;  // printed as None if not given
  check_window(name(), kernel, stride, 0, 1, Dims);
}
template <int Dims>
Tensor LPPool<Dims>::forward(const Tensor& input) const {
  return choose<Dims>(lp_pool1d, lp_pool2d, lp_pool3d)(input, norm_type, kernel_size,
                                                       options.stride, options.ceil_mode);
}
template <int Dims>
std::string LPPool<Dims>::name() const {
  return pool_name("LP", Dims);
}
template <int Dims>
std::string LPPool<Dims>::extra_repr() const {
  return concat("norm_type=", repr(norm_type), ", kernel_size=", repr(kernel_size),
                ", stride=", options.stride.empty() ? "None" : repr(options.stride),
                ", ceil_mode=", repr(options.ceil_mode));
}

template <int Dims>
AdaptiveMaxPool<Dims>::AdaptiveMaxPool(const Shape& size) : output_size(size) {
  check_output_size(name(), size, Dims);
}
template <int Dims>
Tensor AdaptiveMaxPool<Dims>::forward(const Tensor& input) const {
  return choose<Dims>(adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d)(input,
                                                                                     output_size);
}
template <int Dims>
std::tuple<Tensor, Tensor> AdaptiveMaxPool<Dims>::forward_with_indices(const Tensor& input) const {
  return choose<Dims>(adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices,
                      adaptive_max_pool3d_with_indices)(input, output_size);
}
template <int Dims>
std::string AdaptiveMaxPool<Dims>::name() const {
  return pool_name("AdaptiveMax", Dims);
}
template <int Dims>
std::string AdaptiveMaxPool<Dims>::extra_repr() const {
  return "output_size=" + repr_sizes(output_size);
}

template <int Dims>
AdaptiveAvgPool<Dims>::AdaptiveAvgPool(const Shape& size) : output_size(size) {
  check_output_size(name(), size, Dims);
}
template <int Dims>
Tensor AdaptiveAvgPool<Dims>::forward(const Tensor& input) const {
  return choose<Dims>(adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)(input,
                                                                                     output_size);
}
template <int Dims>
std::string AdaptiveAvgPool<Dims>::name() const {
  return pool_name("AdaptiveAvg", Dims);
}
template <int Dims>
std::string AdaptiveAvgPool<Dims>::extra_repr() const {
  return "output_size=" + repr_sizes(output_size);
}

template class MaxPool<1>;
template class MaxPool<2>;
template class MaxPool<3>;
template class MaxUnpool<1>;
template class MaxUnpool<2>;
template class MaxUnpool<3>;
template class AvgPool<1>;
template class AvgPool<2>;
template class AvgPool<3>;
template class LPPool<1>;
template class LPPool<2>;
template class LPPool<3>;
template class AdaptiveMaxPool<1>;
template class AdaptiveMaxPool<2>;
template class AdaptiveMaxPool<3>;
template class AdaptiveAvgPool<1>;
template class AdaptiveAvgPool<2>;
template class AdaptiveAvgPool<3>;

}  // namespace tensora::nn
