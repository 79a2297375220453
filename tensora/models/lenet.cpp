#include "tensora/models/lenet.h"

#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::models {

LeNet::LeNet(LeNetOptions given)
    : options(given),
      conv1(register_module(
          "conv1", nn::Conv2d(options.in_channels, options.channels[0], 3, {.padding = 1}))),
      conv2(register_module(
          "conv2", nn::Conv2d(options.channels[0], options.channels[1], 3, {.padding = 1}))),
      fc1(register_module("fc1", nn::Linear(options.channels[1] * (options.image_size / 4) *
                                                (options.image_size / 4),
                                            options.hidden))),
      fc2(register_module("fc2", nn::Linear(options.hidden, options.num_classes))) {
  check(options.image_size > 0 && options.image_size % 4 == 0,
        "LeNet: image_size must be a positive multiple of 4, got ", options.image_size);
}

Tensor LeNet::forward(const Tensor& images) const {
  check(images.dim() == 4 && images.size(1) == options.in_channels &&
            images.size(2) == options.image_size && images.size(3) == options.image_size,
        "LeNet: expected images of shape [N, ", options.in_channels, ", ", options.image_size, ", ",
        options.image_size, "], got ", images.sizes());
  Tensor x = max_pool2d(relu(conv1(images)), 2);
  x = max_pool2d(relu(conv2(x)), 2).flatten(1);
  return fc2(linear_activation(x, fc1.weight, fc1.bias, "relu"));
}

}  // namespace tensora::models
