#pragma once

#include <functional>
#include <vector>

#include "tensora/core/random.h"
#include "tensora/core/tensor.h"
#include "tensora/data/dataset.h"

// Transforms of images [C, H, W], with torchvision's names and rules. A transform is called with
// the image and the generator from which it draws; a lambda of that form is one too.

namespace tensora::data {

using Transform = std::function<Tensor(const Tensor& image, Generator& generator)>;

/// For a MapDataset: transforms the first tensor of an example, the image.
std::function<Example(Example, Generator&)> on_image(Transform transform);

/// One transform after the other.
class Compose {
 public:
  explicit Compose(std::vector<Transform> transforms) : transforms_(std::move(transforms)) {}
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  std::vector<Transform> transforms_;
};

/// Height and width; one number means both.
struct ImageSize {
  int64_t height, width;
  ImageSize(int64_t side) : height(side), width(side) {}  // NOLINT: implicit
  ImageSize(int64_t h, int64_t w) : height(h), width(w) {}
};

/// uint8 [H, W, C], from 0 to 255, becomes float32 [C, H, W], from 0 to 1. Floating images only
/// have their dims exchanged.
struct ToTensor {
  Tensor operator()(const Tensor& image, Generator& generator) const;
};

/// Another dtype for an image; 0 to 255 of uint8 is 0 to 1 of floating dtypes.
Tensor convert_image_dtype(const Tensor& image, DType dtype = kFloat32);
struct ConvertImageDtype {
  DType dtype = kFloat32;
  Tensor operator()(const Tensor& image, Generator& generator) const;
};

/// (image - mean) / std, by channel; floating images.
class Normalize {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std);
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  Tensor mean_, std_;  // [C, 1, 1]
};

struct ResizeOptions {
  bool antialias = true;
};
/// Bilinear. One number is the new length of the shorter side; the other side keeps the ratio.
class Resize {
 public:
  explicit Resize(int64_t shorter_side, ResizeOptions options = {});
  Resize(int64_t height, int64_t width, ResizeOptions options = {});
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  int64_t height_, width_;  // width 0: height is that of the shorter side
  ResizeOptions options_;
};

/// The middle of the image; a smaller one is first surrounded by 0.
class CenterCrop {
 public:
  explicit CenterCrop(ImageSize size);
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  ImageSize size_;
};

struct Margins {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
  Margins() = default;
  Margins(int64_t all) : left(all), top(all), right(all), bottom(all) {}  // NOLINT: implicit
  Margins(int64_t l, int64_t t, int64_t r, int64_t b) : left(l), top(t), right(r), bottom(b) {}
};
struct PadOptions {
  double fill = 0;
  const char* padding_mode = "constant";  // or "reflect", "edge"
};
/// Surrounds the image.
class Pad {
 public:
  explicit Pad(Margins padding, PadOptions options = {});
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  Margins padding_;
  PadOptions options_;
};

struct RandomCropOptions {
  Margins padding = {};  // comes first
  bool pad_if_needed = false;
  double fill = 0;
  const char* padding_mode = "constant";
};
class RandomCrop {
 public:
  explicit RandomCrop(ImageSize size, RandomCropOptions options = {});
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  ImageSize size_;
  RandomCropOptions options_;
};

struct Range {
  double least, most;
};
struct RandomResizedCropOptions {
  Range scale = {0.08, 1.0};         // of the image's area
  Range ratio = {3.0 / 4, 4.0 / 3};  // of width to height
  bool antialias = true;
};
/// A part of random size and shape, resized.
class RandomResizedCrop {
 public:
  explicit RandomResizedCrop(ImageSize size, RandomResizedCropOptions options = {});
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  ImageSize size_;
  RandomResizedCropOptions options_;
};

struct RandomHorizontalFlip {
  double p = 0.5;
  Tensor operator()(const Tensor& image, Generator& generator) const;
};
struct RandomVerticalFlip {
  double p = 0.5;
  Tensor operator()(const Tensor& image, Generator& generator) const;
};

struct RandomErasingOptions {
  double p = 0.5;
  Range scale = {0.02, 0.33};
  Range ratio = {0.3, 3.3};
  double value = 0;
};
/// Overwrites a random rectangle.
class RandomErasing {
 public:
  explicit RandomErasing(RandomErasingOptions options = {});
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  RandomErasingOptions options_;
};

}  // namespace tensora::data
