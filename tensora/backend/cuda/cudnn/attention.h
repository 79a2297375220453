#pragma once

#include <cstdint>
#include <string_view>

#include "tensora/core/view.h"

namespace tensora::cuda::cudnn {

/// One call of attention for cuDNN: float16 or bfloat16, rows contiguous and aligned to 16 bytes,
/// head sizes that are multiples of 8, no mask but the causal one. Heads of query h use head
/// h / (H / G) of key and value. Of the backward the gradients are given too, and `result` and
/// `logarithms` are the forward's.
struct Attention {
  std::string_view op;
  int device = 0;
  bool backward = false;
  View query;                             // B H L D
  View key;                               // B G S D
  View value;                             // B G S E
  View result;                            // B H L E
  View logarithms;                        // B H L, float32, contiguous
  View grad;                              // B H L E
  View grad_query, grad_key, grad_value;  // like query, key and value
  float scale = 1;
  bool causal = false;
};

/// Queues the forward or the backward. False, and nothing is queued, where cuDNN is missing, older
/// than 9.16 (its backward then needs lengths that are multiples of 128), or has no engine for the
/// call. The first call of a size and layout compiles for about a second. The backward adds to the
/// query's gradient in any order: its last bits vary.
bool attend(const Attention& args);

/// Whose kernels attention runs by where both Tensora and cuDNN have one. Automatic: cuDNN's for
/// sizes at which they were measured to be faster, if the lengths are multiples of 64; Tensora's
/// otherwise and in deterministic mode. The choice depends on the call alone, so a training run
/// keeps its kernels from the first step on. Initially the value of TENSORA_CUDA_ATTENTION.
enum class AttentionChoice : uint8_t { automatic, own, cudnn };
void set_attention_choice(AttentionChoice choice);
AttentionChoice attention_choice();

/// In all threads so far: sizes and layouts that got a plan, and calls that cuDNN ran. A thread
/// keeps a bounded number of plans.
struct AttentionPlanCounts {
  int64_t made = 0, runs = 0;
};
AttentionPlanCounts attention_plan_counts();

}  // namespace tensora::cuda::cudnn
