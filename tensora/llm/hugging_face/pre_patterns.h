#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

// For sources only: public headers do not include this.

namespace tensora::llm {

/// The steps of a part of a tokenizer.json, one or a Sequence with a `list` of them.
std::vector<nlohmann::json> steps_of(const nlohmann::json& part, const char* list);

/// GGUF's name (`tokenizer.ggml.pre`) for the way in which a tokenizer.json cuts words; throws
/// where it has none.
std::string pre_name(const nlohmann::json& tokenizer);
/// The `pre_tokenizer` of a tokenizer.json for GGUF's name; throws for names that are not known.
nlohmann::ordered_json pre_tokenizer_json(std::string_view name);

}  // namespace tensora::llm
