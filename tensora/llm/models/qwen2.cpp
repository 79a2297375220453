#include "tensora/llm/architecture.h"

namespace tensora::llm {

extern const Architecture qwen2_architecture;
constinit const Architecture qwen2_architecture = {.design = {.qkv_bias = true}};

}  // namespace tensora::llm
