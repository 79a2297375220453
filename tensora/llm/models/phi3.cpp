#include "tensora/llm/architecture.h"

namespace tensora::llm {

/// Phi-3 and Phi-4-mini: q, k and v are one matrix, and so are gate and up; both are found by their
/// names and shapes. Factors of longrope are tensors of the file.
extern const Architecture phi3_architecture;
constinit const Architecture phi3_architecture = {};

}  // namespace tensora::llm
