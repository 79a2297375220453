#include "tensora/libtorch/nn/modules_padding.h"

#include "tensora/ops.h"

namespace torch::nn {

ReflectionPad1dImpl::ReflectionPad1dImpl(const ReflectionPad1dOptions& options_given)
    : options(options_given) {}
void ReflectionPad1dImpl::reset() {}
Tensor ReflectionPad1dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kReflect));
}
void ReflectionPad1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ReflectionPad1d(padding=" << options.padding() << ")";
}

ReflectionPad2dImpl::ReflectionPad2dImpl(const ReflectionPad2dOptions& options_given)
    : options(options_given) {}
void ReflectionPad2dImpl::reset() {}
Tensor ReflectionPad2dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kReflect));
}
void ReflectionPad2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ReflectionPad2d(padding=" << options.padding() << ")";
}

ReflectionPad3dImpl::ReflectionPad3dImpl(const ReflectionPad3dOptions& options_given)
    : options(options_given) {}
void ReflectionPad3dImpl::reset() {}
Tensor ReflectionPad3dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kReflect));
}
void ReflectionPad3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ReflectionPad3d(padding=" << options.padding() << ")";
}

ReplicationPad1dImpl::ReplicationPad1dImpl(const ReplicationPad1dOptions& options_given)
    : options(options_given) {}
void ReplicationPad1dImpl::reset() {}
Tensor ReplicationPad1dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kReplicate));
}
void ReplicationPad1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ReplicationPad1d(padding=" << options.padding() << ")";
}

ReplicationPad2dImpl::ReplicationPad2dImpl(const ReplicationPad2dOptions& options_given)
    : options(options_given) {}
void ReplicationPad2dImpl::reset() {}
Tensor ReplicationPad2dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kReplicate));
}
void ReplicationPad2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ReplicationPad2d(padding=" << options.padding() << ")";
}

ReplicationPad3dImpl::ReplicationPad3dImpl(const ReplicationPad3dOptions& options_given)
    : options(options_given) {}
void ReplicationPad3dImpl::reset() {}
Tensor ReplicationPad3dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kReplicate));
}
void ReplicationPad3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ReplicationPad3d(padding=" << options.padding() << ")";
}

ZeroPad1dImpl::ZeroPad1dImpl(const ZeroPad1dOptions& options_given) : options(options_given) {}
void ZeroPad1dImpl::reset() {}
Tensor ZeroPad1dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kConstant));
}
void ZeroPad1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ZeroPad1d(padding=" << options.padding() << ")";
}

ZeroPad2dImpl::ZeroPad2dImpl(const ZeroPad2dOptions& options_given) : options(options_given) {}
void ZeroPad2dImpl::reset() {}
Tensor ZeroPad2dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kConstant));
}
void ZeroPad2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ZeroPad2d(padding=" << options.padding() << ")";
}

ZeroPad3dImpl::ZeroPad3dImpl(const ZeroPad3dOptions& options_given) : options(options_given) {}
void ZeroPad3dImpl::reset() {}
Tensor ZeroPad3dImpl::forward(const Tensor& input) {
  return functional::pad(
      input,
      functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec()).mode(kConstant));
}
void ZeroPad3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ZeroPad3d(padding=" << options.padding() << ")";
}

ConstantPad1dImpl::ConstantPad1dImpl(const ConstantPad1dOptions& options_given)
    : options(options_given) {}
void ConstantPad1dImpl::reset() {}
Tensor ConstantPad1dImpl::forward(const Tensor& input) {
  return functional::pad(input,
                         functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec())
                             .value(options.value()));
}
void ConstantPad1dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ConstantPad1d(padding=" << options.padding()
         << ", value=" << options.value() << ")";
}

ConstantPad2dImpl::ConstantPad2dImpl(const ConstantPad2dOptions& options_given)
    : options(options_given) {}
void ConstantPad2dImpl::reset() {}
Tensor ConstantPad2dImpl::forward(const Tensor& input) {
  return functional::pad(input,
                         functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec())
                             .value(options.value()));
}
void ConstantPad2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ConstantPad2d(padding=" << options.padding()
         << ", value=" << options.value() << ")";
}

ConstantPad3dImpl::ConstantPad3dImpl(const ConstantPad3dOptions& options_given)
    : options(options_given) {}
void ConstantPad3dImpl::reset() {}
Tensor ConstantPad3dImpl::forward(const Tensor& input) {
  return functional::pad(input,
                         functional::PadFuncOptions(c10::ArrayRef<int64_t>(options.padding()).vec())
                             .value(options.value()));
}
void ConstantPad3dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::ConstantPad3d(padding=" << options.padding()
         << ", value=" << options.value() << ")";
}

FoldImpl::FoldImpl(const FoldOptions& options_given) : options(options_given) {}
void FoldImpl::reset() {}
Tensor FoldImpl::forward(const Tensor& input) { return functional::fold(input, options); }
void FoldImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Fold(output_size=" << options.output_size()
         << ", kernel_size=" << options.kernel_size() << ", dilation=" << options.dilation()
         << ", padding=" << options.padding() << ", stride=" << options.stride() << ")";
}

UnfoldImpl::UnfoldImpl(const UnfoldOptions& options_given) : options(options_given) {}
void UnfoldImpl::reset() {}
Tensor UnfoldImpl::forward(const Tensor& input) { return functional::unfold(input, options); }
void UnfoldImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::Unfold(kernel_size=" << options.kernel_size()
         << ", dilation=" << options.dilation() << ", padding=" << options.padding()
         << ", stride=" << options.stride() << ")";
}

PixelShuffleImpl::PixelShuffleImpl(const PixelShuffleOptions& options_given)
    : options(options_given) {}
void PixelShuffleImpl::reset() {}
Tensor PixelShuffleImpl::forward(const Tensor& input) {
  return functional::pixel_shuffle(input, options);
}
void PixelShuffleImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::PixelShuffle(upscale_factor=" << options.upscale_factor()
         << ")";
}

PixelUnshuffleImpl::PixelUnshuffleImpl(const PixelUnshuffleOptions& options_given)
    : options(options_given) {}
void PixelUnshuffleImpl::reset() {}
Tensor PixelUnshuffleImpl::forward(const Tensor& input) {
  return functional::pixel_unshuffle(input, options);
}
void PixelUnshuffleImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha
         << "torch::nn::PixelUnshuffle(downscale_factor=" << options.downscale_factor() << ")";
}

LocalResponseNormImpl::LocalResponseNormImpl(const LocalResponseNormOptions& options_given)
    : options(options_given) {}
void LocalResponseNormImpl::reset() {}
Tensor LocalResponseNormImpl::forward(const Tensor& input) {
  return functional::local_response_norm(input, options);
}
void LocalResponseNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::LocalResponseNorm(" << options.size()
         << ", alpha=" << options.alpha() << ", beta=" << options.beta() << ", k=" << options.k()
         << ")";
}

CrossMapLRN2dImpl::CrossMapLRN2dImpl(const CrossMapLRN2dOptions& options_given)
    : options(options_given) {}
void CrossMapLRN2dImpl::reset() {}
Tensor CrossMapLRN2dImpl::forward(const Tensor& input) {
  return tensora::local_response_norm(input, options.size(), options.alpha(), options.beta(),
                                      static_cast<double>(options.k()));
}
void CrossMapLRN2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "torch::nn::CrossMapLRN2d(" << options.size()
         << ", alpha=" << options.alpha() << ", beta=" << options.beta() << ", k=" << options.k()
         << ")";
}

}  // namespace torch::nn
