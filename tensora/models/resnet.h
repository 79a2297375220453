#pragma once

#include "tensora/nn/batch_norm.h"
#include "tensora/nn/conv.h"
#include "tensora/nn/linear.h"
#include "tensora/nn/module_list.h"
#include "tensora/nn/sequential.h"

namespace tensora::models {

struct ResNetOptions {
  int64_t num_classes = 1000;
  int64_t in_channels = 3;
  bool zero_init_residual = false;  // blocks start as the identity
  bool small_images = false;        // 3 × 3 without stride or pooling at the beginning, for CIFAR
};

/// Two convolutions of 3 × 3, or 1 × 1, 3 × 3 and 1 × 1 in a bottleneck, added to the input.
class ResNetBlock : public nn::Layer<ResNetBlock> {
 public:
  ResNetBlock(int64_t in_channels, int64_t width, int64_t stride, bool bottleneck);

  Tensor forward(const Tensor& input /* N C H W */) const;
  const nn::BatchNorm2d& last_norm() const { return bn3 ? *bn3 : bn2; }

  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  std::optional<nn::Conv2d> conv3;
  std::optional<nn::BatchNorm2d> bn3;
  std::optional<nn::Sequential> downsample;
};

/// ResNet with torchvision's names of parameters. Fast on channels-last images:
/// `model.to(MemoryFormat::channels_last)`.
///
///     models::ResNet model = models::resnet50({.num_classes = 10});
class ResNet : public nn::Layer<ResNet> {
 public:
  /// `layers`: how many blocks each of the four stages has.
  ResNet(const std::array<int64_t, 4>& layers, bool bottleneck, ResNetOptions options = {});

  Tensor forward(const Tensor& images /* N C H W */) const;
  void reset_parameters();

  ResNetOptions options;
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::array<nn::ModuleList<ResNetBlock>, 4> stages;  // "layer1" … "layer4"
  nn::Linear fc;
};

ResNet resnet18(ResNetOptions options = {});
ResNet resnet34(ResNetOptions options = {});
ResNet resnet50(ResNetOptions options = {});
ResNet resnet101(ResNetOptions options = {});
ResNet resnet152(ResNetOptions options = {});

}  // namespace tensora::models
