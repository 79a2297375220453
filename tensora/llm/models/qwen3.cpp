#include "tensora/llm/architecture.h"

namespace tensora::llm {

extern const Architecture qwen3_architecture;
constinit const Architecture qwen3_architecture = {.design = {.qk_norm = true}};

}  // namespace tensora::llm
