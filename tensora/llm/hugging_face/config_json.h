#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "tensora/llm/model_file.h"

// For sources only: public headers do not include this.

namespace tensora::llm {

/// config.json and generation_config.json from GGUF's keys. Throws for what they cannot express.
nlohmann::ordered_json config_json(const ModelFile& file, DType dtype);
nlohmann::ordered_json generation_config_json(const Metadata& metadata);
/// tokenizer.json and tokenizer_config.json of a file that has a vocabulary.
nlohmann::ordered_json tokenizer_json(const Metadata& metadata);
nlohmann::ordered_json tokenizer_config_json(const Metadata& metadata);

/// Llama 3's divisors of rotary frequencies for numbers of a config.json.
struct Llama3Rope {
  double factor = 8, low = 1, high = 4, length = 8192;
};
std::vector<double> llama3_divisors(const Llama3Rope& rope, double base, int64_t dim);

}  // namespace tensora::llm
