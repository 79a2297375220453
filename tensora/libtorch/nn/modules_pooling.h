#pragma once

// Pools.

#include "tensora/libtorch/nn/functional.h"
#include "tensora/libtorch/nn/module.h"

namespace torch::nn {

class MaxPool1dImpl : public Cloneable<MaxPool1dImpl> {
 public:
  explicit MaxPool1dImpl(const MaxPool1dOptions& options_given);
  explicit MaxPool1dImpl(ExpandingArray<1> kernel_size)
      : MaxPool1dImpl(MaxPool1dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);

  MaxPool1dOptions options;
};
TORCH_MODULE(MaxPool1d);

class MaxPool2dImpl : public Cloneable<MaxPool2dImpl> {
 public:
  explicit MaxPool2dImpl(const MaxPool2dOptions& options_given);
  explicit MaxPool2dImpl(ExpandingArray<2> kernel_size)
      : MaxPool2dImpl(MaxPool2dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);

  MaxPool2dOptions options;
};
TORCH_MODULE(MaxPool2d);

class MaxPool3dImpl : public Cloneable<MaxPool3dImpl> {
 public:
  explicit MaxPool3dImpl(const MaxPool3dOptions& options_given);
  explicit MaxPool3dImpl(ExpandingArray<3> kernel_size)
      : MaxPool3dImpl(MaxPool3dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);

  MaxPool3dOptions options;
};
TORCH_MODULE(MaxPool3d);

class AvgPool1dImpl : public Cloneable<AvgPool1dImpl> {
 public:
  explicit AvgPool1dImpl(const AvgPool1dOptions& options_given);
  explicit AvgPool1dImpl(ExpandingArray<1> kernel_size)
      : AvgPool1dImpl(AvgPool1dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  AvgPool1dOptions options;
};
TORCH_MODULE(AvgPool1d);

class AvgPool2dImpl : public Cloneable<AvgPool2dImpl> {
 public:
  explicit AvgPool2dImpl(const AvgPool2dOptions& options_given);
  explicit AvgPool2dImpl(ExpandingArray<2> kernel_size)
      : AvgPool2dImpl(AvgPool2dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  AvgPool2dOptions options;
};
TORCH_MODULE(AvgPool2d);

class AvgPool3dImpl : public Cloneable<AvgPool3dImpl> {
 public:
  explicit AvgPool3dImpl(const AvgPool3dOptions& options_given);
  explicit AvgPool3dImpl(ExpandingArray<3> kernel_size)
      : AvgPool3dImpl(AvgPool3dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  AvgPool3dOptions options;
};
TORCH_MODULE(AvgPool3d);

class AdaptiveMaxPool1dImpl : public Cloneable<AdaptiveMaxPool1dImpl> {
 public:
  explicit AdaptiveMaxPool1dImpl(const AdaptiveMaxPool1dOptions& options_given);
  explicit AdaptiveMaxPool1dImpl(const ExpandingArray<1>& output_size)
      : AdaptiveMaxPool1dImpl(AdaptiveMaxPool1dOptions(output_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);

  AdaptiveMaxPool1dOptions options;
};
TORCH_MODULE(AdaptiveMaxPool1d);

class AdaptiveMaxPool2dImpl : public Cloneable<AdaptiveMaxPool2dImpl> {
 public:
  explicit AdaptiveMaxPool2dImpl(const AdaptiveMaxPool2dOptions& options_given);
  explicit AdaptiveMaxPool2dImpl(const ExpandingArrayWithOptionalElem<2>& output_size)
      : AdaptiveMaxPool2dImpl(AdaptiveMaxPool2dOptions(output_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);

  AdaptiveMaxPool2dOptions options;
};
TORCH_MODULE(AdaptiveMaxPool2d);

class AdaptiveMaxPool3dImpl : public Cloneable<AdaptiveMaxPool3dImpl> {
 public:
  explicit AdaptiveMaxPool3dImpl(const AdaptiveMaxPool3dOptions& options_given);
  explicit AdaptiveMaxPool3dImpl(const ExpandingArrayWithOptionalElem<3>& output_size)
      : AdaptiveMaxPool3dImpl(AdaptiveMaxPool3dOptions(output_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);

  AdaptiveMaxPool3dOptions options;
};
TORCH_MODULE(AdaptiveMaxPool3d);

class AdaptiveAvgPool1dImpl : public Cloneable<AdaptiveAvgPool1dImpl> {
 public:
  explicit AdaptiveAvgPool1dImpl(const AdaptiveAvgPool1dOptions& options_given);
  explicit AdaptiveAvgPool1dImpl(const ExpandingArray<1>& output_size)
      : AdaptiveAvgPool1dImpl(AdaptiveAvgPool1dOptions(output_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  AdaptiveAvgPool1dOptions options;
};
TORCH_MODULE(AdaptiveAvgPool1d);

class AdaptiveAvgPool2dImpl : public Cloneable<AdaptiveAvgPool2dImpl> {
 public:
  explicit AdaptiveAvgPool2dImpl(const AdaptiveAvgPool2dOptions& options_given);
  explicit AdaptiveAvgPool2dImpl(const ExpandingArrayWithOptionalElem<2>& output_size)
      : AdaptiveAvgPool2dImpl(AdaptiveAvgPool2dOptions(output_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  AdaptiveAvgPool2dOptions options;
};
TORCH_MODULE(AdaptiveAvgPool2d);

class AdaptiveAvgPool3dImpl : public Cloneable<AdaptiveAvgPool3dImpl> {
 public:
  explicit AdaptiveAvgPool3dImpl(const AdaptiveAvgPool3dOptions& options_given);
  explicit AdaptiveAvgPool3dImpl(const ExpandingArrayWithOptionalElem<3>& output_size)
      : AdaptiveAvgPool3dImpl(AdaptiveAvgPool3dOptions(output_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  AdaptiveAvgPool3dOptions options;
};
TORCH_MODULE(AdaptiveAvgPool3d);

class MaxUnpool1dImpl : public Cloneable<MaxUnpool1dImpl> {
 public:
  explicit MaxUnpool1dImpl(const MaxUnpool1dOptions& options_given);
  explicit MaxUnpool1dImpl(ExpandingArray<1> kernel_size)
      : MaxUnpool1dImpl(MaxUnpool1dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input, const Tensor& indices,
                 const std::optional<std::vector<int64_t>>& output_size = std::nullopt);
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(std::optional<std::vector<int64_t>>())})

 public:
  MaxUnpool1dOptions options;
};
TORCH_MODULE(MaxUnpool1d);

class MaxUnpool2dImpl : public Cloneable<MaxUnpool2dImpl> {
 public:
  explicit MaxUnpool2dImpl(const MaxUnpool2dOptions& options_given);
  explicit MaxUnpool2dImpl(ExpandingArray<2> kernel_size)
      : MaxUnpool2dImpl(MaxUnpool2dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input, const Tensor& indices,
                 const std::optional<std::vector<int64_t>>& output_size = std::nullopt);
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(std::optional<std::vector<int64_t>>())})

 public:
  MaxUnpool2dOptions options;
};
TORCH_MODULE(MaxUnpool2d);

class MaxUnpool3dImpl : public Cloneable<MaxUnpool3dImpl> {
 public:
  explicit MaxUnpool3dImpl(const MaxUnpool3dOptions& options_given);
  explicit MaxUnpool3dImpl(ExpandingArray<3> kernel_size)
      : MaxUnpool3dImpl(MaxUnpool3dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input, const Tensor& indices,
                 const std::optional<std::vector<int64_t>>& output_size = std::nullopt);
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(std::optional<std::vector<int64_t>>())})

 public:
  MaxUnpool3dOptions options;
};
TORCH_MODULE(MaxUnpool3d);

class FractionalMaxPool2dImpl : public Cloneable<FractionalMaxPool2dImpl> {
 public:
  explicit FractionalMaxPool2dImpl(const FractionalMaxPool2dOptions& options_given);
  explicit FractionalMaxPool2dImpl(ExpandingArray<2> kernel_size)
      : FractionalMaxPool2dImpl(FractionalMaxPool2dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);

  FractionalMaxPool2dOptions options;
};
TORCH_MODULE(FractionalMaxPool2d);

class FractionalMaxPool3dImpl : public Cloneable<FractionalMaxPool3dImpl> {
 public:
  explicit FractionalMaxPool3dImpl(const FractionalMaxPool3dOptions& options_given);
  explicit FractionalMaxPool3dImpl(ExpandingArray<3> kernel_size)
      : FractionalMaxPool3dImpl(FractionalMaxPool3dOptions(kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);
  std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input);

  FractionalMaxPool3dOptions options;
};
TORCH_MODULE(FractionalMaxPool3d);

class LPPool1dImpl : public Cloneable<LPPool1dImpl> {
 public:
  explicit LPPool1dImpl(const LPPool1dOptions& options_given);
  LPPool1dImpl(double norm_type, ExpandingArray<1> kernel_size)
      : LPPool1dImpl(LPPool1dOptions(norm_type, kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  LPPool1dOptions options;
};
TORCH_MODULE(LPPool1d);

class LPPool2dImpl : public Cloneable<LPPool2dImpl> {
 public:
  explicit LPPool2dImpl(const LPPool2dOptions& options_given);
  LPPool2dImpl(double norm_type, ExpandingArray<2> kernel_size)
      : LPPool2dImpl(LPPool2dOptions(norm_type, kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  LPPool2dOptions options;
};
TORCH_MODULE(LPPool2d);

class LPPool3dImpl : public Cloneable<LPPool3dImpl> {
 public:
  explicit LPPool3dImpl(const LPPool3dOptions& options_given);
  LPPool3dImpl(double norm_type, ExpandingArray<3> kernel_size)
      : LPPool3dImpl(LPPool3dOptions(norm_type, kernel_size)) {}
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input);

  LPPool3dOptions options;
};
TORCH_MODULE(LPPool3d);

}  // namespace torch::nn
