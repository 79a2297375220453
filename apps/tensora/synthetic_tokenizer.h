#pragma once

#include <cstdint>

#include "tensora/llm/backends/framework_backend.h"

namespace tensora::cli {

/// Gives a model of random weights a tokenizer, so that it can be served: the first 256 tokens are
/// bytes, the others words that tell their number. Its chat template joins the messages.
void load_synthetic_tokenizer(llm::FrameworkBackend& backend);

}  // namespace tensora::cli
