#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensora/core/tensor.h"

// Images are tensors [channels, height, width]: uint8 from 0 to 255 as files have them, or floating
// from 0 to 1.

namespace tensora::data {

/// The channels of a decoded image: those of the file (1 gray, 2 gray and alpha, 3 RGB, 4 RGB and
/// alpha), or always 1, or always 3.
enum class ImageMode { unchanged, gray, rgb };

/// A PNG or JPEG image as a uint8 tensor. Throws where the bytes are neither, are broken or cut
/// off, or claim more pixels than any image has (2^28).
Tensor decode_image(std::span<const uint8_t> bytes, ImageMode mode = ImageMode::unchanged);
/// The same for a file; errors name it.
Tensor read_image(const std::string& path, ImageMode mode = ImageMode::unchanged);

/// A PNG file of an image of 1 to 4 channels, or of a matrix. Floating values are taken from 0 to 1
/// and rounded.
std::vector<uint8_t> encode_png(const Tensor& image);
void write_png(const std::string& path, const Tensor& image);

struct JpegOptions {
  int quality = 75;  // 1 to 100
};
/// The same as a JPEG file, of 1 or 3 channels.
std::vector<uint8_t> encode_jpeg(const Tensor& image, JpegOptions options = {});
void write_jpeg(const std::string& path, const Tensor& image, JpegOptions options = {});

struct GridOptions {
  int64_t nrow = 8;  // images in a row
  int64_t padding = 2;
  double pad_value = 0;
};
/// Images [N, C, H, W] side by side in one image, to look at.
Tensor make_grid(const Tensor& images, GridOptions options = {});

}  // namespace tensora::data
