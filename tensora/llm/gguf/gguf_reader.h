#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensora/io/byte_reader.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {

struct GgufTensor {
  TensorInfo info;
  uint64_t begin = 0;  // of its bytes in the file
};

struct GgufHeader {
  uint32_t version = 0;
  Metadata metadata;
  std::vector<GgufTensor> tensors;  // in the file's order
};

/// Takes the header of a GGUF file apart. Everything is checked against the size of the file before
/// memory is taken for it, and all tensors lie within the file without overlapping; their contents
/// are not touched. Errors say at which byte and for which key or tensor.
GgufHeader parse_gguf(io::ConstBytes file);

/// The contents of a ModelFile that is a GGUF file, or the first of a split one.
std::shared_ptr<const ModelFile::Contents> open_gguf(const std::string& path);

}  // namespace tensora::llm
