#include <cmath>
#include <cstring>
#include <numbers>

#include "tensora/data/color_transforms.h"
#include "tensora/data/draw.h"
#include "tensora/ops.h"

namespace tensora::data {
namespace {

// The operations in torchvision's order, and how the magnitude m, from 0 to 1, becomes their
// parameter.
enum class Augment {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize,
  count
};

// What moves or fades an image does so in either direction.
bool has_sign(Augment augment) {
  return augment >= Augment::shear_x && augment <= Augment::sharpness;
}

Tensor apply_augment(const Tensor& image, Augment augment, double m, double fill) {
  const auto width = static_cast<double>(image.size(2)),
             height = static_cast<double>(image.size(1));
  switch (augment) {
    // Sheared about the upper left corner, as in the paper.
    case Augment::shear_x:
      return affine(image, {.b = -0.3 * m, .c = -0.3 * m * (height - 1) / 2}, fill);
    case Augment::shear_y:
      return affine(image, {.d = -0.3 * m, .f = -0.3 * m * (width - 1) / 2}, fill);
    case Augment::translate_x:
      return affine(image, {.c = -std::trunc(150.0 / 331.0 * width * m)}, fill);
    case Augment::translate_y:
      return affine(image, {.f = -std::trunc(150.0 / 331.0 * height * m)}, fill);
    case Augment::rotate: {
      const double angle = m * 30 * std::numbers::pi / 180;
      const double cosine = std::cos(angle), sine = std::sin(angle);
      return affine(image, {.a = cosine, .b = -sine, .d = sine, .e = cosine}, fill);
    }
    case Augment::brightness:
      return adjust_brightness(image, 1 + 0.9 * m);
    case Augment::color:
      return adjust_saturation(image, 1 + 0.9 * m);
    case Augment::contrast:
      return adjust_contrast(image, 1 + 0.9 * m);
    case Augment::sharpness:
      return adjust_sharpness(image, 1 + 0.9 * m);
    case Augment::posterize:
      return posterize(image, 8 - static_cast<int>(std::lrint(4 * m)));
    case Augment::solarize:
      return solarize(image, 255 * (1 - m));
    case Augment::autocontrast:
      return autocontrast(image);
    case Augment::equalize:
      return equalize(image);
    default:
      return image;
  }
}

}  // namespace

RandAugment::RandAugment(RandAugmentOptions options) : options_(options) {
  check(options.num_ops >= 0, "RandAugment: expected num_ops of at least 0, got ", options.num_ops);
  check(options.num_magnitude_bins > 1 && options.magnitude >= 0 &&
            options.magnitude < options.num_magnitude_bins,
        "RandAugment: expected a magnitude from 0 to num_magnitude_bins - 1, got ",
        options.magnitude, " of ", options.num_magnitude_bins);
}

Tensor RandAugment::operator()(const Tensor& image, Generator& generator) const {
  check(
      image.defined() && image.dtype() == kUInt8 && image.dim() == 3,
      "RandAugment: expected a uint8 image [C, H, W], got ",
      image.defined() ? concat(image.dtype(), " of shape ", image.sizes()) : "an undefined tensor",
      "; it comes before the conversion to float");
  const double m = static_cast<double>(options_.magnitude) / (options_.num_magnitude_bins - 1);
  Tensor result = image;
  for (int i = 0; i < options_.num_ops; ++i) {
    const auto augment =
        static_cast<Augment>(draw_below(generator, static_cast<int64_t>(Augment::count)));
    const bool negative = draw_below(generator, 2) == 1;
    result = apply_augment(result, augment, negative && has_sign(augment) ? -m : m, options_.fill);
  }
  return result;
}

Tensor affine(const Tensor& image, const AffineMap& map, double fill) {
  check(image.defined() && image.dim() == 3, "affine: expected an image [C, H, W], got ",
        image.defined() ? concat("shape ", image.sizes()) : "an undefined tensor");
  const Tensor source = image.cpu().contiguous(), result = full_like(source, fill);
  const int64_t channels = source.size(0), height = source.size(1), width = source.size(2);
  const auto* const from = static_cast<const char*>(source.data_ptr());
  auto* const to = static_cast<char*>(result.data_ptr());
  const size_t element = source.element_size();
  const double middle_x = static_cast<double>(width - 1) / 2;
  const double middle_y = static_cast<double>(height - 1) / 2;
  for (int64_t y = 0; y < height; ++y) {
    const double dy = static_cast<double>(y) - middle_y;
    for (int64_t x = 0; x < width; ++x) {
      const double dx = static_cast<double>(x) - middle_x;
      const int64_t at_x = std::lrint(map.a * dx + map.b * dy + map.c + middle_x);
      const int64_t at_y = std::lrint(map.d * dx + map.e * dy + map.f + middle_y);
      if (at_x < 0 || at_x >= width || at_y < 0 || at_y >= height) continue;
      for (int64_t c = 0; c < channels; ++c)
        std::memcpy(to + static_cast<size_t>((c * height + y) * width + x) * element,
                    from + static_cast<size_t>((c * height + at_y) * width + at_x) * element,
                    element);
    }
  }
  return result.to(image.device());
}

}  // namespace tensora::data
