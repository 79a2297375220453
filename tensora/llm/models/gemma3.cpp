#include <cmath>

#include "tensora/llm/architecture.h"
#include "tensora/llm/metadata.h"

namespace tensora::llm {

/// Five local layers, which rotate by frequencies of their own, and a global one, in turn.
extern const Architecture gemma3_architecture;
constinit const Architecture gemma3_architecture = {
    .design = {.qk_norm = true, .post_norms = true, .activation = Activation::gelu_tanh},
    .configure =
        [](ModelConfig& config, const Metadata& metadata) {
          const double hidden = static_cast<double>(config.hidden_size);
          config.embedding_scale = std::sqrt(hidden);
          if (!metadata.contains("gemma3.attention.sliding_window_pattern"))
            config.window_period = 6;
          if (!config.local_rope_base) config.local_rope_base = 10000;
          // See gemma2.cpp.
          if (config.layers == 62 && !metadata.contains("gemma3.attention.scale"))
            config.attention_scale = 1 / std::sqrt(hidden / static_cast<double>(config.heads));
        },
};

}  // namespace tensora::llm
