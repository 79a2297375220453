#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "tensora/io/byte_reader.h"
#include "tensora/io/safetensors.h"

namespace tensora::io {

/// One tensor as the header describes it; positions count from the end of the header.
struct TensorEntry {
  std::string name;
  DType dtype = kFloat32;
  Shape sizes;
  uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the order of the text
  Metadata metadata;
};

/// Parses and checks a header: the tensors fill `data_bytes` bytes without holes or overlaps, and
/// each has as many bytes as its dtype and shape need.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes);
std::string print_safetensors_header(const SafetensorsHeader& header);

/// The format's name of a dtype; empty if it has none.
std::string_view safetensors_name(DType dtype);

}  // namespace tensora::io
