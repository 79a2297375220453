#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace tensora::llm
