#pragma once

#include "tensora/nn/conv.h"
#include "tensora/nn/linear.h"

namespace tensora::models {

struct LeNetOptions {
  int64_t num_classes = 10;
  int64_t in_channels = 1;
  int64_t image_size = 28;  // height and width; a multiple of 4
  std::array<int64_t, 2> channels = {32, 64};
  int64_t hidden = 128;
};

/// Two convolutions of 3 × 3, each with ReLU and 2 × 2 max pooling, and two linear layers: LeNet's
/// plan in today's sizes.
class LeNet : public nn::Layer<LeNet> {
 public:
  explicit LeNet(LeNetOptions options = {});

  Tensor forward(const Tensor& images /* N C H W */) const;

  LeNetOptions options;
  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2;
};

}  // namespace tensora::models
