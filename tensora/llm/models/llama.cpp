#include "tensora/llm/architecture.h"

namespace tensora::llm {

/// LLaMA 1 to 3, Mistral, TinyLlama, SmolLM; with experts, Mixtral.
extern const Architecture llama_architecture;
constinit const Architecture llama_architecture = {};

}  // namespace tensora::llm
