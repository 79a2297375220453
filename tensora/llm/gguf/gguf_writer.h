#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tensora/io/state.h"
#include "tensora/llm/metadata.h"

namespace tensora::llm {

/// A tensor that is made only when it is its turn to be written.
struct TensorSource {
  std::string name;
  DType dtype = DType::float32;
  Shape sizes;
  std::function<Tensor()> load;  // of that dtype and those sizes
};

struct GgufWriteOptions {
  /// Called with the bytes of tensors written so far.
  std::function<void(uint64_t bytes)> progress = nullptr;
};

/// Writes a GGUF file (version 3), atomically: where something fails, the old file stays. One
/// tensor at a time is in memory. `general.alignment` of the metadata is obeyed. What readers of
/// the format would refuse is an error here: long or repeated names, more than four dims, dtypes
/// that it does not have.
void write_gguf(const std::string& path, const Metadata& metadata,
                std::span<const TensorSource> tensors, const GgufWriteOptions& options = {});
void write_gguf(const std::string& path, const Metadata& metadata, const StateDict& tensors,
                const GgufWriteOptions& options = {});

}  // namespace tensora::llm
