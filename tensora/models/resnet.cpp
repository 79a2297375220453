#include "tensora/models/resnet.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/nn/init.h"
#include "tensora/ops.h"

namespace tensora::models {

namespace {

nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return {in, out, kernel, {.stride = stride, .padding = kernel / 2, .bias = false}};
}

}  // namespace

ResNetBlock::ResNetBlock(int64_t in, int64_t width, int64_t stride, bool bottleneck)
    : conv1(register_module(
          "conv1", bottleneck ? convolution(in, width, 1) : convolution(in, width, 3, stride))),
      bn1(register_module("bn1", nn::BatchNorm2d(width))),
      conv2(register_module("conv2", bottleneck ? convolution(width, width, 3, stride)
                                                : convolution(width, width, 3))),
      bn2(register_module("bn2", nn::BatchNorm2d(width))) {
  const int64_t out = bottleneck ? 4 * width : width;
  if (bottleneck) {
    conv3 = register_module("conv3", convolution(width, out, 1));
    bn3 = register_module("bn3", nn::BatchNorm2d(out));
  }
  if (stride != 1 || in != out)
    downsample = register_module(
        "downsample", nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out)));
}

Tensor ResNetBlock::forward(const Tensor& input) const {
  const auto skipped = [&] { return downsample ? (*downsample)(input) : input; };
  const Tensor x = conv2(bn1.forward_relu(conv1(input)));
  if (!conv3) return bn2.forward_relu(x, skipped());
  const Tensor y = (*conv3)(bn2.forward_relu(x));
  return bn3->forward_relu(y, skipped());
}

ResNet::ResNet(const std::array<int64_t, 4>& layers, bool bottleneck, ResNetOptions given)
    : options(given),
      conv1(register_module("conv1", options.small_images
                                         ? convolution(options.in_channels, 64, 3)
                                         : convolution(options.in_channels, 64, 7, 2))),
      bn1(register_module("bn1", nn::BatchNorm2d(64))),
      fc(0, 0) {
  int64_t channels = 64;
  for (size_t stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int64_t i = 0; i < layers[stage]; ++i) {
      stages[stage].push_back(
          ResNetBlock(channels, width, stage > 0 && i == 0 ? 2 : 1, bottleneck));
      channels = bottleneck ? 4 * width : width;
    }
    register_module(concat("layer", stage + 1), stages[stage]);
  }
  fc = register_module("fc", nn::Linear(channels, options.num_classes));
  reset_parameters();
}

void ResNet::reset_parameters() {
  const no_grad silent;
  fc.reset_parameters();
  for (const auto& [name, parameter] : named_parameters())
    if (parameter.dim() == 4)
      nn::init::kaiming_normal_(parameter, {.mode = "fan_out", .nonlinearity = "relu"});
    else if (!name.starts_with("fc."))
      parameter.fill_(name.ends_with("weight") ? 1 : 0);
  if (!options.zero_init_residual) return;
  for (const nn::ModuleList<ResNetBlock>& stage : stages)
    for (const ResNetBlock& block : stage) block.last_norm().weight.zero_();
}

Tensor ResNet::forward(const Tensor& images) const {
  check(images.dim() == 4 && images.size(1) == options.in_channels,
        "ResNet: expected images of shape [N, ", options.in_channels, ", H, W], got ",
        images.sizes());
  Tensor x = bn1.forward_relu(conv1(images));
  if (!options.small_images) x = max_pool2d(x, 3, 2, 1);
  for (const nn::ModuleList<ResNetBlock>& stage : stages)
    for (const ResNetBlock& block : stage) x = block(x);
  return fc(x.mean({2, 3}));
}

ResNet resnet18(ResNetOptions options) { return {{2, 2, 2, 2}, false, options}; }
ResNet resnet34(ResNetOptions options) { return {{3, 4, 6, 3}, false, options}; }
ResNet resnet50(ResNetOptions options) { return {{3, 4, 6, 3}, true, options}; }
ResNet resnet101(ResNetOptions options) { return {{3, 4, 23, 3}, true, options}; }
ResNet resnet152(ResNetOptions options) { return {{3, 8, 36, 3}, true, options}; }

}  // namespace tensora::models
