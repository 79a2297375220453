#pragma once

#include "tensora/llm/hugging_face/config_keys.h"
#include "tensora/llm/hugging_face/json_object.h"

// For sources only: public headers do not include this.

namespace tensora::llm {

/// Sets the keys and divisors of the rotary embedding from a config.json whose defaults are filled
/// in. Throws for what the family or GGUF's keys cannot express.
void set_rope(FolderConfig& result, const JsonObject& config, std::string_view model_type);

/// The factor of cosines and sines that yarn and longrope have unless a file gives another one.
double yarn_strength(double factor);
double longrope_strength(double factor, double original);

}  // namespace tensora::llm
