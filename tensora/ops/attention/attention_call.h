#pragma once

// Internal header
// One call of attention as the CUDA kernels see it. The routes are described in attention_cuda.cu.

#include "tensora/backend/cuda/runtime/shared_memory.h"
#include "tensora/core/philox.h"
#include "tensora/ops/attention/attention_problem.h"

namespace tensora::cuda {

/// The element types that the kernels convert from and to.
enum class Element : int { float32, float64, float16, bfloat16, boolean };

/// An array of four dims: batch, head, row, column; strides in elements.
struct Array4 {
  char* data = nullptr;
  int64_t strides[4] = {};
  Element element = Element::float32;
};

struct AttentionCall {
  Array4 query = {}, key = {}, value = {}, result = {};  // in the backward, result is the forward's
  Array4 mask = {};            // strides of 0 along dims that broadcast; null: none
  void* logarithms = nullptr;  // B H L, contiguous; float, or double for float64
  AttentionDropout dropout = {};
  // Packed sequences: where each begins. Null: `sequences` batches of `queries` and `keys`.
  const int* starts_q = nullptr;
  const int* starts_k = nullptr;
  int64_t starts_stride_q = 1, starts_stride_k = 1;
  int64_t sequences = 0, queries = 0, keys = 0;  // packed: of all sequences together
  int64_t dropout_cols = 0;                      // see Note [Dropout of a matrix never stored]
  int heads = 0, groups = 0;
  int head_size = 0, value_size = 0;
  double scale = 1;
  bool causal = false;

  // The backward only.
  Array4 grad = {}, grad_query = {}, grad_key = {}, grad_value = {}, grad_mask = {};
  void* delta = nullptr;  // like logarithms
  const void* grad_logarithms = nullptr;
  int64_t grad_logarithms_strides[3] = {};
  int64_t mask_sizes[4] = {};
};

/// Any dtype, mask, layout and head size, with multiplications and additions of float or double.
void general_forward(std::string_view op, int device, const AttentionCall& call);
void general_backward(std::string_view op, int device, const AttentionCall& call);
/// The dot products of the rows of gradient and result, less the gradient of the logarithms.
void attention_delta(std::string_view op, int device, const AttentionCall& call);
void attention_mask_gradient(std::string_view op, int device, const AttentionCall& call);

/// bfloat16 and float16 with float sums by mma.sync, any mask: rows contiguous, head sizes up to
/// 256 and multiples of 8. See Note [Attention on tensor cores].
template <class T>
void forward_on_tensor_cores(std::string_view op, int device, const AttentionCall& call);
template <class T>
void backward_on_tensor_cores(std::string_view op, int device, const AttentionCall& call);

/// The same by Hopper's own instructions, for devices that run *_sm90a.cu: no mask, dropout
/// or packed sequences, head sizes up to 128. False, and nothing is queued, where it does not
/// apply.
bool forward_on_hopper(std::string_view op, int device, const AttentionCall& call);
bool backward_on_hopper(std::string_view op, int device, const AttentionCall& call);

/// The same for few queries per head and many keys, as when a sequence is continued token by token.
/// False, and nothing is queued, where it does not apply. See Note [Attention of few queries].
bool forward_of_few_queries(std::string_view op, int device, const AttentionCall& call);

}  // namespace tensora::cuda
