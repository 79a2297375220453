#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tensora/llm/model_file.h"

namespace tensora::llm {

/// What a tensor of a Hugging Face folder is in GGUF's terms.
struct GgufName {
  std::string name;     // of the tensor that it is, or is a part of
  int64_t expert = -1;  // which part of a stack of experts' matrices; -1: all of the tensor
};

/// Nothing for names that an architecture does not have.
std::optional<GgufName> gguf_name(std::string_view architecture, std::string_view hugging_face);
/// The other way round; `expert` is the part of a stack.
std::optional<std::string> hugging_face_name(std::string_view architecture, std::string_view gguf,
                                             int64_t expert = -1);

/// Which projections of a layer have biases, by config.json.
struct BiasUse {
  bool qkv = false, output = false, feed_forward = false;
};
/// Throws for a projection (by GGUF's names) that has a bias that it should not have, or lacks one.
void check_biases(std::span<const TensorInfo> tensors, const BiasUse& biases);

}  // namespace tensora::llm
