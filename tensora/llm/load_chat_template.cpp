#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tensora/llm/engine.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

std::string text_of_file(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// A template, or a list of them with names, of which "default" is meant.
std::string chosen_template(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return {};
  for (const auto& entry : value)
    if (entry.is_object() && entry.value("name", "") == "default")
      return entry.value("template", "");
  return {};
}

std::string template_in_folder(const std::string& folder) {
  const std::string alone = folder + "/chat_template.jinja";
  if (std::filesystem::exists(alone)) return text_of_file(alone);
  const std::string path = folder + "/tokenizer_config.json";
  if (!std::filesystem::exists(path)) return {};
  try {
    const auto config = nlohmann::json::parse(text_of_file(path));
    return config.is_object() && config.contains("chat_template")
               ? chosen_template(config["chat_template"])
               : std::string();
  } catch (const nlohmann::json::exception& error) {
    fail(path, ": ", error.what());
  }
}

}  // namespace

ChatTemplate load_chat_template(const ModelFile& file, const Tokenizer& tokenizer) {
  const auto text_of = [&](std::optional<int32_t> token) {
    return token ? tokenizer.bytes_of(*token, {.special = true}) : std::string();
  };
  const std::string source =
      file.folder().empty() ? file.metadata().get_or<std::string>("tokenizer.chat_template", "")
                            : template_in_folder(file.folder());
  return ChatTemplate::of_model(source, text_of(tokenizer.bos()), text_of(tokenizer.eos()));
}

}  // namespace tensora::llm
