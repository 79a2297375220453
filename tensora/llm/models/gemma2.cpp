#include <cmath>

#include "tensora/llm/architecture.h"
#include "tensora/llm/metadata.h"

namespace tensora::llm {

/// Every second layer is local; attention and logits are capped.
extern const Architecture gemma2_architecture;
constinit const Architecture gemma2_architecture = {
    .design = {.post_norms = true, .activation = Activation::gelu_tanh},
    .configure =
        [](ModelConfig& config, const Metadata& metadata) {
          const double hidden = static_cast<double>(config.hidden_size);
          config.embedding_scale = std::sqrt(hidden);
          if (!metadata.contains("gemma2.attention.sliding_window_pattern"))
            config.window_period = 2;
          config.attention_softcap = metadata.get_or("gemma2.attn_logit_softcapping", 50.0);
          config.final_softcap = metadata.get_or("gemma2.final_logit_softcapping", 30.0);
          // The 27B model scales by its share of the hidden size, not by the size of a head; older
          // files do not say so.
          if (config.layers == 46 && !metadata.contains("gemma2.attention.scale"))
            config.attention_scale = 1 / std::sqrt(hidden / static_cast<double>(config.heads));
        },
};

}  // namespace tensora::llm
