#include "tensora/llm/architecture.h"

namespace tensora::llm {

/// Qwen3 with experts in every layer.
extern const Architecture qwen3moe_architecture;
constinit const Architecture qwen3moe_architecture = {
    .design = {.qk_norm = true},
    .configure =
        [](ModelConfig& config, const Metadata&) {
          check(config.experts > 0, "model: a qwen3moe model must have experts, got none");
        },
};

}  // namespace tensora::llm
