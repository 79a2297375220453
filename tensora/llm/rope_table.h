#pragma once

#include "tensora/llm/model_config.h"

namespace tensora::llm {

/// Which frequencies a table is made of.
enum class RopeKind : uint8_t { global, local };

/// The cosines, then the sines, of all angles: float32 [rows, rotary_dim], a row per position, as
/// paged_store takes them. What the scaling does to angles and magnitude is in the table; where
/// that depends on the length of sequences (longrope), it is done for `length`.
Tensor rope_table(const ModelConfig& config, RopeKind kind, int64_t rows, int64_t length,
                  Device device);

}  // namespace tensora::llm
