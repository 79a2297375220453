#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/normalizer.h"
#include "tensora/llm/tokenizer/pre_tokenizer.h"
#include "tensora/llm/tokenizer/vocabulary.h"

// The stations of a tokenizer.json, and reading JSON with clear errors. Not for users: they do not
// need to have the JSON library.

namespace tensora::llm {

/// Throws for what is not JSON, and for nesting beyond 64 levels.
nlohmann::json parse_json(std::string_view text, std::string_view file);
/// A member that must be there.
const nlohmann::json& json_member(const nlohmann::json& object, const char* name);
/// A member, or null.
const nlohmann::json& json_part(const nlohmann::json& object, const char* name);
std::string json_text(const nlohmann::json& object, const char* name, std::string_view fallback);
/// Throws for what is not an integer; `what` names it.
int64_t json_integer(const nlohmann::json& value, std::string_view what);
bool json_flag(const nlohmann::json& object, const char* name, bool fallback);

/// Null is a station without steps.
void add_normalizer(const nlohmann::json& part, Normalizer& out);
/// Sets `byte_level` if tokens are written in the letters of bytes.
void add_pre_tokenizer(const nlohmann::json& part, PreTokenizer& out, bool& byte_level);
/// What is put before and after a text.
void add_post_processor(const nlohmann::json& part, const Vocabulary& vocabulary,
                        std::vector<Token>& before, std::vector<Token>& after);

/// From the text of a token to what it stands for.
struct JsonDecoder {
  std::vector<std::function<std::string(std::string)>> steps;
  bool strips_first_space = false;
};
JsonDecoder json_decoder(const nlohmann::json& part);

}  // namespace tensora::llm
