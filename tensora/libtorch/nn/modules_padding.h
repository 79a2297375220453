#pragma once

// Paddings, folds and norms without parameters.

#include "tensora/libtorch/nn/functional.h"
#include "tensora/libtorch/nn/module.h"

namespace torch::nn {

class ReflectionPad1dImpl : public Cloneable<ReflectionPad1dImpl> {
 public:
  explicit ReflectionPad1dImpl(const ReflectionPad1dOptions& options_given);
  explicit ReflectionPad1dImpl(ExpandingArray<2> padding)
      : ReflectionPad1dImpl(ReflectionPad1dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ReflectionPad1dOptions options;
};
TORCH_MODULE(ReflectionPad1d);

class ReflectionPad2dImpl : public Cloneable<ReflectionPad2dImpl> {
 public:
  explicit ReflectionPad2dImpl(const ReflectionPad2dOptions& options_given);
  explicit ReflectionPad2dImpl(ExpandingArray<4> padding)
      : ReflectionPad2dImpl(ReflectionPad2dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ReflectionPad2dOptions options;
};
TORCH_MODULE(ReflectionPad2d);

class ReflectionPad3dImpl : public Cloneable<ReflectionPad3dImpl> {
 public:
  explicit ReflectionPad3dImpl(const ReflectionPad3dOptions& options_given);
  explicit ReflectionPad3dImpl(ExpandingArray<6> padding)
      : ReflectionPad3dImpl(ReflectionPad3dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ReflectionPad3dOptions options;
};
TORCH_MODULE(ReflectionPad3d);

class ReplicationPad1dImpl : public Cloneable<ReplicationPad1dImpl> {
 public:
  explicit ReplicationPad1dImpl(const ReplicationPad1dOptions& options_given);
  explicit ReplicationPad1dImpl(ExpandingArray<2> padding)
      : ReplicationPad1dImpl(ReplicationPad1dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ReplicationPad1dOptions options;
};
TORCH_MODULE(ReplicationPad1d);

class ReplicationPad2dImpl : public Cloneable<ReplicationPad2dImpl> {
 public:
  explicit ReplicationPad2dImpl(const ReplicationPad2dOptions& options_given);
  explicit ReplicationPad2dImpl(ExpandingArray<4> padding)
      : ReplicationPad2dImpl(ReplicationPad2dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ReplicationPad2dOptions options;
};
TORCH_MODULE(ReplicationPad2d);

class ReplicationPad3dImpl : public Cloneable<ReplicationPad3dImpl> {
 public:
  explicit ReplicationPad3dImpl(const ReplicationPad3dOptions& options_given);
  explicit ReplicationPad3dImpl(ExpandingArray<6> padding)
      : ReplicationPad3dImpl(ReplicationPad3dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ReplicationPad3dOptions options;
};
TORCH_MODULE(ReplicationPad3d);

class ZeroPad1dImpl : public Cloneable<ZeroPad1dImpl> {
 public:
  explicit ZeroPad1dImpl(const ZeroPad1dOptions& options_given);
  explicit ZeroPad1dImpl(ExpandingArray<2> padding) : ZeroPad1dImpl(ZeroPad1dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ZeroPad1dOptions options;
};
TORCH_MODULE(ZeroPad1d);

class ZeroPad2dImpl : public Cloneable<ZeroPad2dImpl> {
 public:
  explicit ZeroPad2dImpl(const ZeroPad2dOptions& options_given);
  explicit ZeroPad2dImpl(ExpandingArray<4> padding) : ZeroPad2dImpl(ZeroPad2dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ZeroPad2dOptions options;
};
TORCH_MODULE(ZeroPad2d);

class ZeroPad3dImpl : public Cloneable<ZeroPad3dImpl> {
 public:
  explicit ZeroPad3dImpl(const ZeroPad3dOptions& options_given);
  explicit ZeroPad3dImpl(ExpandingArray<6> padding) : ZeroPad3dImpl(ZeroPad3dOptions(padding)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ZeroPad3dOptions options;
};
TORCH_MODULE(ZeroPad3d);

class ConstantPad1dImpl : public Cloneable<ConstantPad1dImpl> {
 public:
  explicit ConstantPad1dImpl(const ConstantPad1dOptions& options_given);
  ConstantPad1dImpl(ExpandingArray<2> padding, double value)
      : ConstantPad1dImpl(ConstantPad1dOptions(padding, value)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ConstantPad1dOptions options;
};
TORCH_MODULE(ConstantPad1d);

class ConstantPad2dImpl : public Cloneable<ConstantPad2dImpl> {
 public:
  explicit ConstantPad2dImpl(const ConstantPad2dOptions& options_given);
  ConstantPad2dImpl(ExpandingArray<4> padding, double value)
      : ConstantPad2dImpl(ConstantPad2dOptions(padding, value)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ConstantPad2dOptions options;
};
TORCH_MODULE(ConstantPad2d);

class ConstantPad3dImpl : public Cloneable<ConstantPad3dImpl> {
 public:
  explicit ConstantPad3dImpl(const ConstantPad3dOptions& options_given);
  ConstantPad3dImpl(ExpandingArray<6> padding, double value)
      : ConstantPad3dImpl(ConstantPad3dOptions(padding, value)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  ConstantPad3dOptions options;
};
TORCH_MODULE(ConstantPad3d);

class FoldImpl : public Cloneable<FoldImpl> {
 public:
  explicit FoldImpl(const FoldOptions& options_given);
  FoldImpl(ExpandingArray<2> output_size, ExpandingArray<2> kernel_size)
      : FoldImpl(FoldOptions(output_size, kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  FoldOptions options;
};
TORCH_MODULE(Fold);

class UnfoldImpl : public Cloneable<UnfoldImpl> {
 public:
  explicit UnfoldImpl(const UnfoldOptions& options_given);
  explicit UnfoldImpl(ExpandingArray<2> kernel_size) : UnfoldImpl(UnfoldOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  UnfoldOptions options;
};
TORCH_MODULE(Unfold);

class PixelShuffleImpl : public Cloneable<PixelShuffleImpl> {
 public:
  explicit PixelShuffleImpl(const PixelShuffleOptions& options_given);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  PixelShuffleOptions options;
};
TORCH_MODULE(PixelShuffle);

class PixelUnshuffleImpl : public Cloneable<PixelUnshuffleImpl> {
 public:
  explicit PixelUnshuffleImpl(const PixelUnshuffleOptions& options_given);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  PixelUnshuffleOptions options;
};
TORCH_MODULE(PixelUnshuffle);

class LocalResponseNormImpl : public Cloneable<LocalResponseNormImpl> {
 public:
  explicit LocalResponseNormImpl(const LocalResponseNormOptions& options_given);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  LocalResponseNormOptions options;
};
TORCH_MODULE(LocalResponseNorm);

class CrossMapLRN2dImpl : public Cloneable<CrossMapLRN2dImpl> {
 public:
  explicit CrossMapLRN2dImpl(const CrossMapLRN2dOptions& options_given);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  CrossMapLRN2dOptions options;
};
TORCH_MODULE(CrossMapLRN2d);

}  // namespace torch::nn
