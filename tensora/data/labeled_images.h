#pragma once

#include <string>

#include "tensora/data/transforms.h"

namespace tensora::data {

/// Images of one size in memory, with a label each. An example is {image, label}: the image goes
/// through `transform`, which gets it as uint8 [C, H, W]; without one it becomes float32 from 0 to
/// 1. The label is an int64 of 0 dims.
class LabeledImages : public Dataset {
 public:
  /// `images` are uint8 [N, C, H, W], `labels` int64 [N].
  LabeledImages(Tensor images, Tensor labels, Transform transform = nullptr);
  Example get(int64_t index) const override;
  int64_t size() const override { return images_.size(0); }
  std::optional<Batch> get_batch(std::span<const int64_t> indices,
                                 NewTensor new_tensor) const override;

  const Tensor& images() const { return images_; }
  const Tensor& labels() const { return labels_; }

 private:
  Tensor images_, labels_;
  Transform transform_;
};

struct ImageDatasetOptions {
  bool train = true;  // else the test set
  Transform transform = nullptr;
};

/// The handwritten digits of LeCun, Cortes and Burges, or clothes in the same format: images
/// [1, 28, 28]. `root` holds their four IDX files, packed by gzip or not, or torchvision's folder
/// MNIST/raw with them.
class MNIST final : public LabeledImages {
 public:
  explicit MNIST(const std::string& root, ImageDatasetOptions options = {});
};
using FashionMNIST = MNIST;

/// Small photographs in ten classes: images [3, 32, 32]. `root` holds the six files of the binary
/// version, or their folder cifar-10-batches-bin.
class CIFAR10 final : public LabeledImages {
 public:
  explicit CIFAR10(const std::string& root, ImageDatasetOptions options = {});
};

}  // namespace tensora::data
