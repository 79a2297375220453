#pragma once

#include "tensora/data/transforms.h"

// Colours of images [C, H, W], uint8 from 0 to 255 or floating from 0 to 1, by torchvision's rules.

namespace tensora::data {

/// One channel of brightness, of 3 or 1 channels.
Tensor rgb_to_grayscale(const Tensor& image);
/// Factor 0 gives black, 1 the image itself.
Tensor adjust_brightness(const Tensor& image, double factor);
/// Factor 0 gives the image's mean brightness everywhere, 1 the image itself.
Tensor adjust_contrast(const Tensor& image, double factor);
/// Factor 0 gives shades of gray, 1 the image itself.
Tensor adjust_saturation(const Tensor& image, double factor);
/// Turns the circle of colours by `factor`, from -0.5 to 0.5 of a full turn.
Tensor adjust_hue(const Tensor& image, double factor);
/// Factor 0 gives a smoothed image, 1 the image itself.
Tensor adjust_sharpness(const Tensor& image, double factor);
/// Keeps the upper `bits` of uint8 values.
Tensor posterize(const Tensor& image, int bits);
Tensor invert(const Tensor& image);
/// Inverts values from `threshold` up.
Tensor solarize(const Tensor& image, double threshold);
/// Stretches every channel to the whole range.
Tensor autocontrast(const Tensor& image);
/// Makes all values of a uint8 channel about equally frequent.
Tensor equalize(const Tensor& image);

/// Brightness, and nothing else.
struct Grayscale {
  int num_output_channels = 1;  // or 3
  Tensor operator()(const Tensor& image, Generator& generator) const;
};

struct ColorJitterOptions {
  // A number b means factors from max(0, 1 - b) to 1 + b; for the hue, from -b to b.
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
/// Changes brightness, contrast, saturation and hue by random factors, in random order.
class ColorJitter {
 public:
  explicit ColorJitter(ColorJitterOptions options);
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  ColorJitterOptions options_;
};

struct RandAugmentOptions {
  int num_ops = 2;
  int magnitude = 9;
  int num_magnitude_bins = 31;
  double fill = 0;  // where a moved image leaves nothing
};
/// Some of 14 operations, chosen at random, with a given magnitude (Cubuk et al., 2019); uint8
/// images.
class RandAugment {
 public:
  explicit RandAugment(RandAugmentOptions options = {});
  Tensor operator()(const Tensor& image, Generator& generator) const;

 private:
  RandAugmentOptions options_;
};

struct AffineMap {
  // From pixels of the result to pixels of the input, both counted from the middle:
  // x' = a x + b y + c, y' = d x + e y + f.
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};
/// The image under an affine map, each pixel taken from the nearest one; `fill` beyond the edges.
Tensor affine(const Tensor& image, const AffineMap& map, double fill = 0);

}  // namespace tensora::data
