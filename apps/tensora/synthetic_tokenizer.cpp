#include "synthetic_tokenizer.h"

#include <nlohmann/json.hpp>

#include "files.h"
#include "private_folder.h"
#include "tensora/base/check.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string utf8(int code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
}

// The letter that stands for a byte in byte-level BPE: itself where it can be printed.
std::string letter_of(int byte) {
  const auto is_printed = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  if (is_printed(byte)) return utf8(byte);
  int place = 0;
  for (int before = 0; before < byte; ++before) place += is_printed(before) ? 0 : 1;
  return utf8(256 + place);
}

std::string tokenizer_json(int64_t size) {
  Json words = Json::object();
  for (int64_t token = 0; token < size; ++token)
    words[token < 256 ? letter_of(static_cast<int>(token)) : concat("\xc4\xa0w", token)] = token;
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return Json{{"version", "1.0"},
              {"added_tokens", Json::array()},
              {"normalizer", nullptr},
              {"pre_tokenizer", level},
              {"post_processor", nullptr},
              {"decoder", level},
              {"model", {{"type", "BPE"}, {"vocab", words}, {"merges", Json::array()}}}}
      .dump();
}

}  // namespace

void load_synthetic_tokenizer(llm::FrameworkBackend& backend) {
  const PrivateFolder folder("tensora-");
  const Json settings = {
      {"chat_template",
       "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
       "{% if add_generation_prompt %}assistant: {% endif %}"}};
  write_file(folder.path() + "/tokenizer.json",
             tokenizer_json(backend.model_info().config.vocab_size));
  write_file(folder.path() + "/tokenizer_config.json", settings.dump());
  write_file(folder.path() + "/config.json",
             R"({"model_type":"llama","tie_word_embeddings":true})");
  // No tensors: a header of two bytes.
  write_file(folder.path() + "/model.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  backend.load_tokenizer(folder.path());
}

}  // namespace tensora::cli
