#include "tensora/libtorch/nn/modules_pooling.h"

namespace torch::nn {

MaxPool1dImpl::MaxPool1dImpl(const MaxPool1dOptions& options_given) : options(options_given) {}
void MaxPool1dImpl::reset() {}
Tensor MaxPool1dImpl::forward(const Tensor& input) {
  return functional::max_pool1d(input, options);
}
std::tuple<Tensor, Tensor> MaxPool1dImpl::forward_with_indices(const Tensor& input) {
  return functional::max_pool1d_with_indices(input, options);
}
void MaxPool1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MaxPool1d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding()
         << ", dilation=" << options.dilation() << ", ceil_mode=" << options.ceil_mode() << ")";
}

MaxPool2dImpl::MaxPool2dImpl(const MaxPool2dOptions& options_given) : options(options_given) {}
void MaxPool2dImpl::reset() {}
Tensor MaxPool2dImpl::forward(const Tensor& input) {
  return functional::max_pool2d(input, options);
}
std::tuple<Tensor, Tensor> MaxPool2dImpl::forward_with_indices(const Tensor& input) {
  return functional::max_pool2d_with_indices(input, options);
}
void MaxPool2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MaxPool2d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding()
         << ", dilation=" << options.dilation() << ", ceil_mode=" << options.ceil_mode() << ")";
}

MaxPool3dImpl::MaxPool3dImpl(const MaxPool3dOptions& options_given) : options(options_given) {}
void MaxPool3dImpl::reset() {}
Tensor MaxPool3dImpl::forward(const Tensor& input) {
  return functional::max_pool3d(input, options);
}
std::tuple<Tensor, Tensor> MaxPool3dImpl::forward_with_indices(const Tensor& input) {
  return functional::max_pool3d_with_indices(input, options);
}
void MaxPool3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MaxPool3d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding()
         << ", dilation=" << options.dilation() << ", ceil_mode=" << options.ceil_mode() << ")";
}

AvgPool1dImpl::AvgPool1dImpl(const AvgPool1dOptions& options_given) : options(options_given) {}
void AvgPool1dImpl::reset() {}
Tensor AvgPool1dImpl::forward(const Tensor& input) {
  return functional::avg_pool1d(input, options);
}
void AvgPool1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AvgPool1d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding() << ")";
}

AvgPool2dImpl::AvgPool2dImpl(const AvgPool2dOptions& options_given) : options(options_given) {}
void AvgPool2dImpl::reset() {}
Tensor AvgPool2dImpl::forward(const Tensor& input) {
  return functional::avg_pool2d(input, options);
}
void AvgPool2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AvgPool2d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding() << ")";
}

AvgPool3dImpl::AvgPool3dImpl(const AvgPool3dOptions& options_given) : options(options_given) {}
void AvgPool3dImpl::reset() {}
Tensor AvgPool3dImpl::forward(const Tensor& input) {
  return functional::avg_pool3d(input, options);
}
void AvgPool3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AvgPool3d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding() << ")";
}

AdaptiveMaxPool1dImpl::AdaptiveMaxPool1dImpl(const AdaptiveMaxPool1dOptions& options_given)
    : options(options_given) {}
void AdaptiveMaxPool1dImpl::reset() {}
Tensor AdaptiveMaxPool1dImpl::forward(const Tensor& input) {
  return functional::adaptive_max_pool1d(input, options);
}
std::tuple<Tensor, Tensor> AdaptiveMaxPool1dImpl::forward_with_indices(const Tensor& input) {
  return functional::adaptive_max_pool1d_with_indices(input, options);
}
void AdaptiveMaxPool1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AdaptiveMaxPool1d(output_size=" << options.output_size()
         << ")";
}

AdaptiveMaxPool2dImpl::AdaptiveMaxPool2dImpl(const AdaptiveMaxPool2dOptions& options_given)
    : options(options_given) {}
void AdaptiveMaxPool2dImpl::reset() {}
Tensor AdaptiveMaxPool2dImpl::forward(const Tensor& input) {
  return functional::adaptive_max_pool2d(input, options);
}
std::tuple<Tensor, Tensor> AdaptiveMaxPool2dImpl::forward_with_indices(const Tensor& input) {
  return functional::adaptive_max_pool2d_with_indices(input, options);
}
void AdaptiveMaxPool2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AdaptiveMaxPool2d(output_size=" << options.output_size()
         << ")";
}

AdaptiveMaxPool3dImpl::AdaptiveMaxPool3dImpl(const AdaptiveMaxPool3dOptions& options_given)
    : options(options_given) {}
void AdaptiveMaxPool3dImpl::reset() {}
Tensor AdaptiveMaxPool3dImpl::forward(const Tensor& input) {
  return functional::adaptive_max_pool3d(input, options);
}
std::tuple<Tensor, Tensor> AdaptiveMaxPool3dImpl::forward_with_indices(const Tensor& input) {
  return functional::adaptive_max_pool3d_with_indices(input, options);
}
void AdaptiveMaxPool3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AdaptiveMaxPool3d(output_size=" << options.output_size()
         << ")";
}

AdaptiveAvgPool1dImpl::AdaptiveAvgPool1dImpl(const AdaptiveAvgPool1dOptions& options_given)
    : options(options_given) {}
void AdaptiveAvgPool1dImpl::reset() {}
Tensor AdaptiveAvgPool1dImpl::forward(const Tensor& input) {
  return functional::adaptive_avg_pool1d(input, options);
}
void AdaptiveAvgPool1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AdaptiveAvgPool1d(output_size=" << options.output_size()
         << ")";
}

AdaptiveAvgPool2dImpl::AdaptiveAvgPool2dImpl(const AdaptiveAvgPool2dOptions& options_given)
    : options(options_given) {}
void AdaptiveAvgPool2dImpl::reset() {}
Tensor AdaptiveAvgPool2dImpl::forward(const Tensor& input) {
  return functional::adaptive_avg_pool2d(input, options);
}
void AdaptiveAvgPool2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AdaptiveAvgPool2d(output_size=" << options.output_size()
         << ")";
}

AdaptiveAvgPool3dImpl::AdaptiveAvgPool3dImpl(const AdaptiveAvgPool3dOptions& options_given)
    : options(options_given) {}
void AdaptiveAvgPool3dImpl::reset() {}
Tensor AdaptiveAvgPool3dImpl::forward(const Tensor& input) {
  return functional::adaptive_avg_pool3d(input, options);
}
void AdaptiveAvgPool3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::AdaptiveAvgPool3d(output_size=" << options.output_size()
         << ")";
}

MaxUnpool1dImpl::MaxUnpool1dImpl(const MaxUnpool1dOptions& options_given)
    : options(options_given) {}
void MaxUnpool1dImpl::reset() {}
Tensor MaxUnpool1dImpl::forward(const Tensor& input, const Tensor& indices,
                                const std::optional<std::vector<int64_t>>& output_size) {
  return functional::max_unpool1d(input, indices,
                                  functional::MaxUnpool1dFuncOptions(options.kernel_size())
                                      .stride(options.stride())
                                      .padding(options.padding())
                                      .output_size(output_size));
}
void MaxUnpool1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MaxUnpool1d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding() << ")";
}

MaxUnpool2dImpl::MaxUnpool2dImpl(const MaxUnpool2dOptions& options_given)
    : options(options_given) {}
void MaxUnpool2dImpl::reset() {}
Tensor MaxUnpool2dImpl::forward(const Tensor& input, const Tensor& indices,
                                const std::optional<std::vector<int64_t>>& output_size) {
  return functional::max_unpool2d(input, indices,
                                  functional::MaxUnpool2dFuncOptions(options.kernel_size())
                                      .stride(options.stride())
                                      .padding(options.padding())
                                      .output_size(output_size));
}
void MaxUnpool2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MaxUnpool2d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding() << ")";
}

MaxUnpool3dImpl::MaxUnpool3dImpl(const MaxUnpool3dOptions& options_given)
    : options(options_given) {}
void MaxUnpool3dImpl::reset() {}
Tensor MaxUnpool3dImpl::forward(const Tensor& input, const Tensor& indices,
                                const std::optional<std::vector<int64_t>>& output_size) {
  return functional::max_unpool3d(input, indices,
                                  functional::MaxUnpool3dFuncOptions(options.kernel_size())
                                      .stride(options.stride())
                                      .padding(options.padding())
                                      .output_size(output_size));
}
void MaxUnpool3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::MaxUnpool3d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding() << ")";
}

FractionalMaxPool2dImpl::FractionalMaxPool2dImpl(const FractionalMaxPool2dOptions& options_given)
    : options(options_given) {}
void FractionalMaxPool2dImpl::reset() {}
Tensor FractionalMaxPool2dImpl::forward(const Tensor& input) {
  return functional::fractional_max_pool2d(input, options);
}
std::tuple<Tensor, Tensor> FractionalMaxPool2dImpl::forward_with_indices(const Tensor& input) {
  return functional::fractional_max_pool2d_with_indices(input, options);
}
void FractionalMaxPool2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::FractionalMaxPool2d()";
}

FractionalMaxPool3dImpl::FractionalMaxPool3dImpl(const FractionalMaxPool3dOptions& options_given)
    : options(options_given) {}
void FractionalMaxPool3dImpl::reset() {}
Tensor FractionalMaxPool3dImpl::forward(const Tensor& input) {
  return functional::fractional_max_pool3d(input, options);
}
std::tuple<Tensor, Tensor> FractionalMaxPool3dImpl::forward_with_indices(const Tensor& input) {
  return functional::fractional_max_pool3d_with_indices(input, options);
}
void FractionalMaxPool3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::FractionalMaxPool3d()";
}

LPPool1dImpl::LPPool1dImpl(const LPPool1dOptions& options_given) : options(options_given) {}
void LPPool1dImpl::reset() {}
Tensor LPPool1dImpl::forward(const Tensor& input) { return functional::lp_pool1d(input, options); }
void LPPool1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::LPPool1d(norm_type=" << options.norm_type()
         << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride()
         << ", ceil_mode=" << options.ceil_mode() << ")";
}

LPPool2dImpl::LPPool2dImpl(const LPPool2dOptions& options_given) : options(options_given) {}
void LPPool2dImpl::reset() {}
Tensor LPPool2dImpl::forward(const Tensor& input) { return functional::lp_pool2d(input, options); }
void LPPool2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::LPPool2d(norm_type=" << options.norm_type()
         << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride()
         << ", ceil_mode=" << options.ceil_mode() << ")";
}

LPPool3dImpl::LPPool3dImpl(const LPPool3dOptions& options_given) : options(options_given) {}
void LPPool3dImpl::reset() {}
Tensor LPPool3dImpl::forward(const Tensor& input) { return functional::lp_pool3d(input, options); }
void LPPool3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::LPPool3d(norm_type=" << options.norm_type()
         << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride()
         << ", ceil_mode=" << options.ceil_mode() << ")";
}

}  // namespace torch::nn
