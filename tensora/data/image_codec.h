#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Between the formats of images and image.cpp; internal.

namespace tensora::data {

/// What libpng or libjpeg says; each calls back with a text and must not be returned to.
inline constexpr size_t kCodecMessage = 200;

/// Rows of interleaved pixels: what files hold.
struct Pixels {
  int64_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> bytes;

  size_t row_bytes() const { return static_cast<size_t>(width * channels); }
  uint8_t* row(int64_t y) { return bytes.data() + static_cast<size_t>(y) * row_bytes(); }
  const uint8_t* row(int64_t y) const {
    return bytes.data() + static_cast<size_t>(y) * row_bytes();
  }
  /// Sets the size; throws, before memory is allocated, where no image is that large.
  void resize(int64_t new_height, int64_t new_width, int64_t new_channels);
};

bool is_png(std::span<const uint8_t> bytes);
Pixels decode_png(std::span<const uint8_t> bytes);
std::vector<uint8_t> encode_png_pixels(const Pixels& pixels);

bool is_jpeg(std::span<const uint8_t> bytes);
/// `gray`: of a colour image, only the brightness.
Pixels decode_jpeg(std::span<const uint8_t> bytes, bool gray);
std::vector<uint8_t> encode_jpeg_pixels(const Pixels& pixels, int quality);

}  // namespace tensora::data
