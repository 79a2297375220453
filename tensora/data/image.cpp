#include "tensora/data/image.h"

#include <algorithm>

#include "tensora/data/image_codec.h"
#include "tensora/io/atomic_file.h"
#include "tensora/io/mapped_file.h"
#include "tensora/ops.h"

namespace tensora::data {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 28;

// Rec. 601, in 16 bits.
uint8_t brightness(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

// Alpha is dropped, gray is repeated.
void convert_row(const uint8_t* from, int64_t channels, uint8_t* const* planes, int64_t wanted,
                 int64_t width) {
  const bool colour = channels >= 3;
  for (int64_t x = 0; x < width; ++x, from += channels)
    for (int64_t c = 0; c < wanted; ++c)
      planes[c][x] = wanted == 1 && colour ? brightness(from) : colour ? from[c] : from[0];
}

void split_row(const uint8_t* from, uint8_t* const* planes, int64_t channels, int64_t width) {
  if (channels == 3) {  // the usual case, which the compiler unrolls
    uint8_t *const red = planes[0], *const green = planes[1], *const blue = planes[2];
    for (int64_t x = 0; x < width; ++x) {
      red[x] = from[3 * x];
      green[x] = from[3 * x + 1];
      blue[x] = from[3 * x + 2];
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t x = 0; x < width; ++x) planes[c][x] = from[x * channels + c];
}

Tensor to_tensor(const Pixels& pixels, ImageMode mode) {
  const int64_t wanted = mode == ImageMode::gray ? 1 : mode == ImageMode::rgb ? 3 : pixels.channels;
  const Tensor image = empty({wanted, pixels.height, pixels.width}, {.dtype = kUInt8});
  auto* const data = image.data_ptr<uint8_t>();
  const int64_t plane = pixels.height * pixels.width;
  for (int64_t y = 0; y < pixels.height; ++y) {
    uint8_t* planes[4];
    for (int64_t c = 0; c < wanted; ++c) planes[c] = data + c * plane + y * pixels.width;
    if (wanted == pixels.channels)
      split_row(pixels.row(y), planes, wanted, pixels.width);
    else
      convert_row(pixels.row(y), pixels.channels, planes, wanted, pixels.width);
  }
  return image;
}

Tensor decode(std::span<const uint8_t> bytes, ImageMode mode) {
  if (is_png(bytes)) return to_tensor(decode_png(bytes), mode);
  check(is_jpeg(bytes), "expected a PNG or JPEG image, got ", bytes.size(),
        " bytes of something else");
  return to_tensor(decode_jpeg(bytes, mode == ImageMode::gray), mode);
}

Pixels to_pixels(std::string_view function, const Tensor& image) {
  check(image.defined() && (image.dim() == 2 || image.dim() == 3), function,
        ": expected an image [channels, height, width] or [height, width], got ",
        image.defined() ? concat("shape ", image.sizes()) : "an undefined tensor");
  check(image.dtype() == kUInt8 || image.is_floating_point(), function,
        ": expected uint8 or floating values, got ", image.dtype());
  Tensor planes = image.detach().cpu();
  if (planes.dim() == 2) planes = planes.unsqueeze(0);
  check(planes.size(0) >= 1 && planes.size(0) <= 4 && planes.numel() > 0, function,
        ": expected 1 to 4 channels and a pixel, got shape ", image.sizes());
  if (planes.is_floating_point())
    planes = (planes.to(kFloat32) * 255 + 0.5).clamp(0, 255).to(kUInt8);
  const Tensor rows = planes.permute({1, 2, 0}).contiguous();
  Pixels pixels;
  pixels.resize(rows.size(0), rows.size(1), rows.size(2));
  std::copy_n(rows.data_ptr<uint8_t>(), pixels.bytes.size(), pixels.bytes.data());
  return pixels;
}

void write_bytes(const std::string& path, std::span<const uint8_t> bytes) {
  io::AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace

void Pixels::resize(int64_t new_height, int64_t new_width, int64_t new_channels) {
  check(new_height > 0 && new_width > 0 && new_height <= kMostPixels / new_width,
        "the image claims a size of ", new_width, " x ", new_height, " pixels");
  height = new_height;
  width = new_width;
  channels = new_channels;
  bytes.resize(static_cast<size_t>(height) * row_bytes());
}

Tensor decode_image(std::span<const uint8_t> bytes, ImageMode mode) {
  return called_as("decode_image", [&] { return decode(bytes, mode); });
}

Tensor read_image(const std::string& path, ImageMode mode) {
  return io::reading("read_image", path,
                     [&] { return decode(io::MappedFile::open(path)->bytes(), mode); });
}

std::vector<uint8_t> encode_png(const Tensor& image) {
  return encode_png_pixels(to_pixels("encode_png", image));
}

void write_png(const std::string& path, const Tensor& image) {
  write_bytes(path, encode_png_pixels(to_pixels("write_png", image)));
}

namespace {
std::vector<uint8_t> jpeg_of(std::string_view function, const Tensor& image, JpegOptions options) {
  check(options.quality >= 1 && options.quality <= 100, function,
        ": expected a quality from 1 to 100, got ", options.quality);
  const Pixels pixels = to_pixels(function, image);
  check(pixels.channels == 1 || pixels.channels == 3, function, ": expected 1 or 3 channels, got ",
        pixels.channels);
  return encode_jpeg_pixels(pixels, options.quality);
}
}  // namespace

std::vector<uint8_t> encode_jpeg(const Tensor& image, JpegOptions options) {
  return jpeg_of("encode_jpeg", image, options);
}

void write_jpeg(const std::string& path, const Tensor& image, JpegOptions options) {
  write_bytes(path, jpeg_of("write_jpeg", image, options));
}

Tensor make_grid(const Tensor& images, GridOptions options) {
  check(images.defined() && images.dim() == 4 && images.size(0) > 0,
        "make_grid: expected images [N, C, H, W], got ",
        images.defined() ? concat("shape ", images.sizes()) : "an undefined tensor");
  check(options.nrow > 0 && options.padding >= 0,
        "make_grid: expected nrow above 0 and padding of at least 0, got ", options.nrow, " and ",
        options.padding);
  const int64_t count = images.size(0), columns = std::min(options.nrow, count);
  const int64_t rows = (count + columns - 1) / columns, gap = options.padding;
  const int64_t height = images.size(2) + gap, width = images.size(3) + gap;
  const Tensor grid = full({images.size(1), height * rows + gap, width * columns + gap},
                           options.pad_value, {.dtype = images.dtype(), .device = images.device()});
  for (int64_t i = 0; i < count; ++i)
    grid.narrow(1, (i / columns) * height + gap, images.size(2))
        .narrow(2, (i % columns) * width + gap, images.size(3))
        .copy_(images[i]);
  return grid;
}

}  // namespace tensora::data
