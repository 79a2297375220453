#include "tensora/data/transforms.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tensora/data/draw.h"
#include "tensora/ops.h"

namespace tensora::data {
namespace {

struct Box {
  int64_t top, left, height, width;
};

void require_image(std::string_view transform, const Tensor& image) {
  check(image.defined() && image.dim() == 3 && image.numel() > 0, transform,
        ": expected an image [C, H, W], got ",
        image.defined() ? concat("shape ", image.sizes()) : "an undefined tensor");
}

void require_size(std::string_view transform, ImageSize size) {
  check(size.height > 0 && size.width > 0, transform, ": expected a size above 0, got ",
        size.height, " x ", size.width);
}

Tensor crop(const Tensor& image, const Box& box) {
  return image.narrow(1, box.top, box.height).narrow(2, box.left, box.width);
}

Tensor resized(const Tensor& image, int64_t height, int64_t width, bool antialias) {
  if (image.size(1) == height && image.size(2) == width) return image;
  const bool bytes = image.dtype() == kUInt8;
  const Tensor input = (bytes ? image.to(kFloat32) : image).unsqueeze(0);
  const Tensor output = interpolate(input, Shape{height, width}, {}, "bilinear",
                                    /*align_corners=*/false, {}, antialias)
                            .squeeze(0);
  return bytes ? output.round().clamp(0, 255).to(kUInt8) : output;
}

Tensor padded(const Tensor& image, const Margins& margins, std::string_view mode, double fill) {
  const std::vector<int64_t> sizes = {margins.left, margins.right, margins.top, margins.bottom};
  if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 0; })) return image;
  if (mode == "constant") return pad(image, sizes, "constant", fill);
  return pad(image, sizes, mode == "edge" ? "replicate" : "reflect");
}

void require_mode(std::string_view transform, std::string_view mode) {
  check(mode == "constant" || mode == "reflect" || mode == "edge", transform,
        ": expected the padding_mode constant, reflect or edge, got '", mode, "'");
}

void require_range(std::string_view transform, std::string_view name, const Range& range) {
  check(range.least > 0 && range.least <= range.most, transform, ": expected a ", name,
        " of two rising numbers above 0, got ", range.least, " and ", range.most);
}

void require_probability(std::string_view transform, double p) {
  check(p >= 0 && p <= 1, transform, ": expected p from 0 to 1, got ", p);
}

// A rectangle of a random share of the image and a random ratio, in a random place; false where ten
// tries found none that fits.
bool draw_box(const Tensor& image, const Range& scale, const Range& ratio, bool whole_allowed,
              Generator& generator, Box& box) {
  const int64_t height = image.size(1), width = image.size(2);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area =
        static_cast<double>(height * width) * draw_uniform(generator, scale.least, scale.most);
    const double shape =
        std::exp(draw_uniform(generator, std::log(ratio.least), std::log(ratio.most)));
    box.width = std::lrint(std::sqrt(area * shape));
    box.height = std::lrint(std::sqrt(area / shape));
    const int64_t slack = whole_allowed ? 0 : 1;
    if (box.width < 1 || box.height < 1 || box.width + slack > width || box.height + slack > height)
      continue;
    box.top = draw_below(generator, height - box.height + 1);
    box.left = draw_below(generator, width - box.width + 1);
    return true;
  }
  return false;
}

// The largest part in the middle whose ratio is allowed.
Box middle_box(int64_t height, int64_t width, const Range& ratio) {
  const double own = static_cast<double>(width) / static_cast<double>(height);
  Box box{0, 0, height, width};
  if (own < ratio.least)
    box.height = std::lrint(static_cast<double>(width) / ratio.least);
  else if (own > ratio.most)
    box.width = std::lrint(static_cast<double>(height) * ratio.most);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

}  // namespace

std::function<Example(Example, Generator&)> on_image(Transform transform) {
  check(static_cast<bool>(transform), "on_image: expected a transform, got none");
  return [transform = std::move(transform)](Example example, Generator& generator) {
    check(!example.empty(), "on_image: the example has no tensor");
    example[0] = transform(example[0], generator);
    return example;
  };
}

Tensor Compose::operator()(const Tensor& image, Generator& generator) const {
  Tensor result = image;
  for (const Transform& transform : transforms_) result = transform(result, generator);
  return result;
}

// ---- conversions
// ---------------------------------------------------------------------------------

Tensor ToTensor::operator()(const Tensor& image, Generator&) const {
  check(image.defined() && (image.dim() == 2 || image.dim() == 3),
        "ToTensor: expected an image [H, W, C] or [H, W], got ",
        image.defined() ? concat("shape ", image.sizes()) : "an undefined tensor");
  const Tensor planes = image.dim() == 2 ? image.unsqueeze(0) : image.permute({2, 0, 1});
  if (image.dtype() != kUInt8) return planes.contiguous();
  return convert_image_dtype(planes.contiguous());
}

Tensor convert_image_dtype(const Tensor& image, DType dtype) {
  check(image.dtype() == kUInt8 || image.is_floating_point(),
        "convert_image_dtype: expected uint8 or floating values, got ", image.dtype());
  check(dtype == kUInt8 || tensora::is_floating_point(dtype),
        "convert_image_dtype: expected uint8 or a floating dtype, got ", dtype);
  if ((image.dtype() == kUInt8) == (dtype == kUInt8)) return image.to(dtype);
  // Every value below 256 gets an equal part of 0 to 1, as in torchvision.
  if (dtype == kUInt8) return (image.to(kFloat32) * (256 - 1e-3)).to(kUInt8);
  return image.to(dtype) / 255;
}

Tensor ConvertImageDtype::operator()(const Tensor& image, Generator&) const {
  return convert_image_dtype(image, dtype);
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> std) {
  check(!mean.empty() && mean.size() == std.size(),
        "Normalize: expected as many means as standard deviations, got ", mean.size(), " and ",
        std.size());
  for (const double value : std)
    check(value != 0, "Normalize: expected standard deviations other than 0");
  const auto channels = static_cast<int64_t>(mean.size());
  mean_ = tensor(mean, {.dtype = kFloat32}).reshape({channels, 1, 1});
  std_ = tensor(std, {.dtype = kFloat32}).reshape({channels, 1, 1});
}

Tensor Normalize::operator()(const Tensor& image, Generator&) const {
  check(image.is_floating_point(), "Normalize: expected a floating image, got ", image.dtype(),
        "; ConvertImageDtype comes first");
  check(image.dim() >= 3 && (mean_.size(0) == 1 || image.size(-3) == mean_.size(0)),
        "Normalize: expected an image of ", mean_.size(0), " channels, got shape ", image.sizes());
  const auto fit = [&](const Tensor& numbers) {
    return numbers.to(image.dtype()).to(image.device());
  };
  return (image - fit(mean_)) / fit(std_);
}

// ---- sizes
// ---------------------------------------------------------------------------------------

Resize::Resize(int64_t shorter_side, ResizeOptions options)
    : height_(shorter_side), width_(0), options_(options) {
  require_size("Resize", shorter_side);
}

Resize::Resize(int64_t height, int64_t width, ResizeOptions options)
    : height_(height), width_(width), options_(options) {
  require_size("Resize", {height, width});
}

Tensor Resize::operator()(const Tensor& image, Generator&) const {
  require_image("Resize", image);
  if (width_ > 0) return resized(image, height_, width_, options_.antialias);
  const int64_t height = image.size(1), width = image.size(2);
  const int64_t shorter = std::min(height, width), longer = std::max(height, width);
  const int64_t new_longer = height_ * longer / shorter;
  return height <= width ? resized(image, height_, new_longer, options_.antialias)
                         : resized(image, new_longer, height_, options_.antialias);
}

CenterCrop::CenterCrop(ImageSize size) : size_(size) { require_size("CenterCrop", size); }

Tensor CenterCrop::operator()(const Tensor& image, Generator&) const {
  require_image("CenterCrop", image);
  const int64_t more_height = std::max<int64_t>(0, size_.height - image.size(1));
  const int64_t more_width = std::max<int64_t>(0, size_.width - image.size(2));
  const Tensor large =
      padded(image, {more_width / 2, more_height / 2, (more_width + 1) / 2, (more_height + 1) / 2},
             "constant", 0);
  // Halves are rounded to even numbers, as Python does.
  const auto middle = [](int64_t whole, int64_t part) {
    return std::lrint(static_cast<double>(whole - part) / 2);
  };
  return crop(large, {middle(large.size(1), size_.height), middle(large.size(2), size_.width),
                      size_.height, size_.width});
}

Pad::Pad(Margins padding, PadOptions options) : padding_(padding), options_(options) {
  require_mode("Pad", options.padding_mode);
}

Tensor Pad::operator()(const Tensor& image, Generator&) const {
  require_image("Pad", image);
  return padded(image, padding_, options_.padding_mode, options_.fill);
}

RandomCrop::RandomCrop(ImageSize size, RandomCropOptions options) : size_(size), options_(options) {
  require_size("RandomCrop", size);
  require_mode("RandomCrop", options.padding_mode);
}

Tensor RandomCrop::operator()(const Tensor& image, Generator& generator) const {
  require_image("RandomCrop", image);
  Tensor large = padded(image, options_.padding, options_.padding_mode, options_.fill);
  if (options_.pad_if_needed) {
    const int64_t more_height = std::max<int64_t>(0, size_.height - large.size(1));
    const int64_t more_width = std::max<int64_t>(0, size_.width - large.size(2));
    large = padded(large, {more_width, more_height, more_width, more_height}, options_.padding_mode,
                   options_.fill);
  }
  const int64_t spare_height = large.size(1) - size_.height;
  const int64_t spare_width = large.size(2) - size_.width;
  check(spare_height >= 0 && spare_width >= 0, "RandomCrop: the image of ", large.size(1), " x ",
        large.size(2), " is smaller than the crop of ", size_.height, " x ", size_.width,
        "; see pad_if_needed");
  const int64_t top = draw_below(generator, spare_height + 1);
  const int64_t left = draw_below(generator, spare_width + 1);
  return crop(large, {top, left, size_.height, size_.width});
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, RandomResizedCropOptions options)
    : size_(size), options_(options) {
  require_size("RandomResizedCrop", size);
  require_range("RandomResizedCrop", "scale", options.scale);
  require_range("RandomResizedCrop", "ratio", options.ratio);
}

Tensor RandomResizedCrop::operator()(const Tensor& image, Generator& generator) const {
  require_image("RandomResizedCrop", image);
  Box box{};
  if (!draw_box(image, options_.scale, options_.ratio, /*whole_allowed=*/true, generator, box))
    box = middle_box(image.size(1), image.size(2), options_.ratio);
  return resized(crop(image, box), size_.height, size_.width, options_.antialias);
}

// ---- chance
// --------------------------------------------------------------------------------------

Tensor RandomHorizontalFlip::operator()(const Tensor& image, Generator& generator) const {
  require_probability("RandomHorizontalFlip", p);
  return draw_uniform(generator) < p ? flip(image, {-1}) : image;
}

Tensor RandomVerticalFlip::operator()(const Tensor& image, Generator& generator) const {
  require_probability("RandomVerticalFlip", p);
  return draw_uniform(generator) < p ? flip(image, {-2}) : image;
}

RandomErasing::RandomErasing(RandomErasingOptions options) : options_(options) {
  require_probability("RandomErasing", options.p);
  require_range("RandomErasing", "scale", options.scale);
  require_range("RandomErasing", "ratio", options.ratio);
}

Tensor RandomErasing::operator()(const Tensor& image, Generator& generator) const {
  require_image("RandomErasing", image);
  Box box{};
  if (draw_uniform(generator) >= options_.p ||
      !draw_box(image, options_.scale, options_.ratio, /*whole_allowed=*/false, generator, box))
    return image;
  const Tensor result = image.clone();
  crop(result, box).fill_(options_.value);
  return result;
}

}  // namespace tensora::data
