#include <cmath>

#include "tensora/llm/architecture.h"

namespace tensora::llm {

/// The files hold the norms' weights with 1 added, as rms_norm takes them.
extern const Architecture gemma_architecture;
constinit const Architecture gemma_architecture = {
    .design = {.activation = Activation::gelu_tanh},
    .configure =
        [](ModelConfig& config, const Metadata&) {
          config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
        },
};

}  // namespace tensora::llm
