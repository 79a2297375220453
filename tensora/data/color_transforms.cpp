#include "tensora/data/color_transforms.h"

#include <array>
#include <string_view>

#include "tensora/data/draw.h"
#include "tensora/ops.h"

namespace tensora::data {
namespace {

void require_colours(std::string_view function, const Tensor& image) {
  check(image.defined() && image.dim() == 3 && (image.size(0) == 1 || image.size(0) == 3), function,
        ": expected an image of 1 or 3 channels, got ",
        image.defined() ? concat("shape ", image.sizes()) : "an undefined tensor");
  check(image.dtype() == kUInt8 || image.is_floating_point(), function,
        ": expected uint8 or floating values, got ", image.dtype());
}

double bound_of(const Tensor& image) { return image.is_floating_point() ? 1 : 255; }

Tensor as_float(const Tensor& image) {
  return image.is_floating_point() ? image : image.to(kFloat32);
}

void require_factor(std::string_view function, double factor) {
  check(factor >= 0, function, ": expected a factor of at least 0, got ", factor);
}

// `other` is what factor 0 gives.
Tensor blend(const Tensor& image, const Tensor& other, double factor) {
  const Tensor mixed = as_float(image) * factor + as_float(other) * (1 - factor);
  return mixed.clamp(0, bound_of(image)).to(image.dtype());
}

// Hue, saturation and value of RGB from 0 to 1, and back, by the usual hexagon.
std::array<Tensor, 3> to_hsv(const Tensor& rgb) {
  const Tensor r = rgb[0], g = rgb[1], b = rgb[2];
  const Tensor most = rgb.amax(0), least = rgb.amin(0);
  const Tensor gray = most == least, range = most - least;
  const Tensor one = ones_like(most);
  const Tensor saturation = range / where(gray, one, most);
  const Tensor divisor = where(gray, one, range);
  const Tensor rc = (most - r) / divisor, gc = (most - g) / divisor, bc = (most - b) / divisor;
  const Tensor red = (most == r).to(rgb.dtype()) * (bc - gc);
  const Tensor green = ((most == g) & (most != r)).to(rgb.dtype()) * (rc + 2 - bc);
  const Tensor blue = ((most != g) & (most != r)).to(rgb.dtype()) * (gc + 4 - rc);
  return {fmod((red + green + blue) / 6 + 1, 1), saturation, most};
}

Tensor from_hsv(const std::array<Tensor, 3>& hsv) {
  const auto& [hue, saturation, value] = hsv;
  const Tensor sixth = floor(hue * 6), rest = hue * 6 - sixth;
  const Tensor p = (value * (1 - saturation)).clamp(0, 1);
  const Tensor q = (value * (1 - saturation * rest)).clamp(0, 1);
  const Tensor t = (value * (1 - saturation * (1 - rest))).clamp(0, 1);
  const Tensor part = sixth.to(kInt64).remainder(6).unsqueeze(0);
  const auto channel = [&](const TensorList& by_part) {
    return gather(stack(by_part), 0, part).squeeze(0);
  };
  return stack({channel({value, q, p, p, t, value}), channel({t, value, value, q, p, p}),
                channel({p, p, t, value, value, q})});
}

}  // namespace

Tensor rgb_to_grayscale(const Tensor& image) {
  require_colours("rgb_to_grayscale", image);
  if (image.size(0) == 1) return image;
  const Tensor x = as_float(image);
  return (x[0] * 0.2989 + x[1] * 0.587 + x[2] * 0.114).to(image.dtype()).unsqueeze(0);
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  require_colours("adjust_brightness", image);
  require_factor("adjust_brightness", factor);
  return (as_float(image) * factor).clamp(0, bound_of(image)).to(image.dtype());
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  require_colours("adjust_contrast", image);
  require_factor("adjust_contrast", factor);
  return blend(image, as_float(rgb_to_grayscale(image)).mean(), factor);
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  require_colours("adjust_saturation", image);
  require_factor("adjust_saturation", factor);
  if (image.size(0) == 1) return image;
  return blend(image, rgb_to_grayscale(image), factor);
}

Tensor adjust_hue(const Tensor& image, double factor) {
  require_colours("adjust_hue", image);
  check(factor >= -0.5 && factor <= 0.5, "adjust_hue: expected a factor from -0.5 to 0.5, got ",
        factor);
  if (image.size(0) == 1) return image;
  auto hsv = to_hsv(convert_image_dtype(image));
  hsv[0] = (hsv[0] + factor).remainder(1);
  return convert_image_dtype(from_hsv(hsv), image.dtype());
}

Tensor adjust_sharpness(const Tensor& image, double factor) {
  require_colours("adjust_sharpness", image);
  require_factor("adjust_sharpness", factor);
  if (image.size(1) <= 2 || image.size(2) <= 2) return image;
  // The pixel counts five times, its eight neighbours once; the edge stays as it is.
  const Tensor x = as_float(image);
  const int64_t height = image.size(1) - 2, width = image.size(2) - 2;
  Tensor sum = x.narrow(1, 1, height).narrow(2, 1, width) * 4;
  for (int64_t dy = 0; dy < 3; ++dy)
    for (int64_t dx = 0; dx < 3; ++dx) sum = sum + x.narrow(1, dy, height).narrow(2, dx, width);
  sum = sum / 13;
  const Tensor smooth = x.clone();
  smooth.narrow(1, 1, height)
      .narrow(2, 1, width)
      .copy_(image.is_floating_point() ? sum : sum.round());
  return blend(image, smooth, factor);
}

Tensor posterize(const Tensor& image, int bits) {
  require_colours("posterize", image);
  check(image.dtype() == kUInt8 && bits >= 0 && bits <= 8,
        "posterize: expected a uint8 image and 0 to 8 bits, got ", image.dtype(), " and ", bits);
  const int64_t step = int64_t{1} << (8 - bits);
  return (image.to(kInt32) / step).to(kInt32).mul(step).to(kUInt8);
}

Tensor invert(const Tensor& image) {
  require_colours("invert", image);
  return (bound_of(image) - as_float(image)).to(image.dtype());
}

Tensor solarize(const Tensor& image, double threshold) {
  require_colours("solarize", image);
  return where(as_float(image) >= threshold, invert(image), image);
}

Tensor autocontrast(const Tensor& image) {
  require_colours("autocontrast", image);
  const Tensor x = as_float(image);
  const Tensor least = x.amin({1, 2}, true), most = x.amax({1, 2}, true);
  const Tensor flat = most == least;
  const Tensor stretched =
      (x - least) * (bound_of(image) / where(flat, ones_like(most), most - least));
  return where(flat, x, stretched).clamp(0, bound_of(image)).to(image.dtype());
}

Tensor equalize(const Tensor& image) {
  require_colours("equalize", image);
  check(image.dtype() == kUInt8, "equalize: expected a uint8 image, got ", image.dtype());
  const Tensor source = image.cpu().contiguous(), result = empty_like(source);
  const int64_t plane = source.size(1) * source.size(2);
  for (int64_t c = 0; c < source.size(0); ++c) {
    const uint8_t* const from = source.data_ptr<uint8_t>() + c * plane;
    uint8_t* const to = result.data_ptr<uint8_t>() + c * plane;
    std::array<int64_t, 256> counts{};
    for (int64_t i = 0; i < plane; ++i) ++counts[from[i]];
    int64_t last = 0;  // how often the largest value comes
    for (const int64_t count : counts)
      if (count > 0) last = count;
    const int64_t step = (plane - last) / 255;
    std::array<uint8_t, 256> table{};
    int64_t below = 0;
    for (size_t value = 0; value < 256; ++value) {
      table[value] =
          static_cast<uint8_t>(step == 0 ? static_cast<int64_t>(value)
                                         : std::min<int64_t>(255, (below + step / 2) / step));
      below += counts[value];
    }
    for (int64_t i = 0; i < plane; ++i) to[i] = table[from[i]];
  }
  return result.to(image.device());
}

Tensor Grayscale::operator()(const Tensor& image, Generator&) const {
  check(num_output_channels == 1 || num_output_channels == 3,
        "Grayscale: expected 1 or 3 num_output_channels, got ", num_output_channels);
  const Tensor gray = rgb_to_grayscale(image);
  return gray.expand({num_output_channels, gray.size(1), gray.size(2)}).contiguous();
}

ColorJitter::ColorJitter(ColorJitterOptions options) : options_(options) {
  for (const double value : {options.brightness, options.contrast, options.saturation, options.hue})
    check(value >= 0, "ColorJitter: expected numbers of at least 0, got ", value);
  check(options.hue <= 0.5, "ColorJitter: expected a hue of at most 0.5, got ", options.hue);
}

Tensor ColorJitter::operator()(const Tensor& image, Generator& generator) const {
  using Adjust = Tensor (*)(const Tensor&, double);
  struct Step {
    Adjust adjust;
    double strength, centre;
  };
  std::array<Step, 4> steps = {{{adjust_brightness, options_.brightness, 1},
                                {adjust_contrast, options_.contrast, 1},
                                {adjust_saturation, options_.saturation, 1},
                                {adjust_hue, options_.hue, 0}}};
  for (size_t i = 3; i > 0; --i)
    std::swap(steps[i],
              steps[static_cast<size_t>(draw_below(generator, static_cast<int64_t>(i) + 1))]);
  Tensor result = image;
  for (const Step& step : steps) {
    if (step.strength == 0) continue;
    double least = step.centre - step.strength;
    if (step.centre == 1) least = std::max(0.0, least);
    result = step.adjust(result, draw_uniform(generator, least, step.centre + step.strength));
  }
  return result;
}

}  // namespace tensora::data
