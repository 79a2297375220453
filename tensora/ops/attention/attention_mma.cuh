#pragma once

// Internal header
// What the kernels on tensor cores are made of. A tile in shared memory holds rows of `width`
// 16-bit elements in chunks of 16 bytes; where a chunk lies within its row is turned by the row's
// number, so that the eight rows that ldmatrix reads together lie in different banks.

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/ops/attention/attention_call.h"

namespace tensora::cuda {

template <int width>
__device__ inline unsigned chunk_at(unsigned row, unsigned chunk) {
  return row * (width * 2) + (chunk ^ (row & 7)) * 16;
}

/// Copies 16 bytes to shared memory without passing through registers; zeros if not `inside`.
__device__ inline void copy_chunk(unsigned to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

__device__ inline void load_matrices(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}
__device__ inline void load_transposed(unsigned (&to)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from));
}
/// sum (16 x 8) += a (16 x 16) @ b (16 x 8), spread over a warp.
template <class T>
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  if constexpr (is_bfloat16_type<T>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// 2^x by the special function unit.
__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

inline constexpr float kLog2E = 1.44269504088896341f;
inline constexpr float kHidden = -__builtin_huge_valf();

/// Rows of one head in global memory: 16-bit elements, contiguous along the row.
struct HeadRows {
  const char* data;
  int64_t row_bytes;
  int count, width;
};

/// Requests `rows` rows from `first` on; what lies beyond the array becomes zero.
template <int rows, int width, int threads>
__device__ inline void request_rows(const HeadRows& from, int first, unsigned tile) {
  constexpr int kChunks = width / 8;
  static_assert(rows * kChunks % threads == 0);
#pragma unroll
  for (int step = 0; step < rows * kChunks / threads; ++step) {
    const int i = step * threads + static_cast<int>(threadIdx.x);
    const int row = i / kChunks, chunk = i % kChunks;
    const bool inside = first + row < from.count && chunk * 8 < from.width;
    const char* const source =
        inside ? from.data + (first + row) * from.row_bytes + chunk * 16 : from.data;
    copy_chunk(tile + chunk_at<width>(static_cast<unsigned>(row), static_cast<unsigned>(chunk)),
               source, inside);
  }
}

/// The sequence and head that a block works on.
struct HeadPlace {
  int64_t batch, first_query, first_key;
  int queries, keys, head, group;
};

__device__ inline HeadPlace head_place(const AttentionCall& call, int64_t sequence, int head) {
  HeadPlace place;
  place.head = head;
  place.group = head / (call.heads / call.groups);
  if (call.starts_q) {
    const int q = call.starts_q[sequence * call.starts_stride_q];
    const int k = call.starts_k[sequence * call.starts_stride_k];
    place.batch = 0;
    place.first_query = q;
    place.first_key = k;
    place.queries = call.starts_q[(sequence + 1) * call.starts_stride_q] - q;
    place.keys = call.starts_k[(sequence + 1) * call.starts_stride_k] - k;
  } else {
    place.batch = sequence;
    place.first_query = place.first_key = 0;
    place.queries = static_cast<int>(call.queries);
    place.keys = static_cast<int>(call.keys);
  }
  return place;
}

__device__ inline HeadRows rows_of_queries(const Array4& array, const HeadPlace& place, int width) {
  const int64_t first = place.batch * array.strides[0] + place.head * array.strides[1] +
                        place.first_query * array.strides[2];
  return {array.data + first * 2, array.strides[2] * 2, place.queries, width};
}
__device__ inline HeadRows rows_of_keys(const Array4& array, const HeadPlace& place, int width) {
  const int64_t first = place.batch * array.strides[0] + place.group * array.strides[1] +
                        place.first_key * array.strides[2];
  return {array.data + first * 2, array.strides[2] * 2, place.keys, width};
}

__device__ inline int64_t line_of(const AttentionCall& call, const HeadPlace& place, int query) {
  return (place.batch * call.heads + place.head) * call.queries + place.first_query + query;
}

/// The score of a pair, to the base 2, with everything that may hide it.
__device__ inline float masked_score(const AttentionCall& call, const HeadPlace& place, int query,
                                     int key, float dot) {
  if (query >= place.queries || key >= place.keys || (call.causal && key > query)) return kHidden;
  float score = dot * static_cast<float>(call.scale);
  if (call.mask.data) {
    const int64_t* const strides = call.mask.strides;
    const int64_t at =
        place.batch * strides[0] + place.head * strides[1] + query * strides[2] + key * strides[3];
    switch (call.mask.element) {
      case Element::boolean:
        if (!reinterpret_cast<const bool*>(call.mask.data)[at]) score = kHidden;
        break;
      case Element::float16:
        score += static_cast<float>(reinterpret_cast<const Half*>(call.mask.data)[at]);
        break;
      case Element::bfloat16:
        score += static_cast<float>(reinterpret_cast<const BFloat16*>(call.mask.data)[at]);
        break;
      default:
        score += reinterpret_cast<const float*>(call.mask.data)[at];
    }
  }
  return score * kLog2E;
}

// Not inlined, or it would be for every score of a tile.
__device__ static __noinline__ bool keeps_element(unsigned long long seed,
                                                  unsigned long long offset, unsigned last,
                                                  long long element) {
  const AttentionDropout dropout{.seed = seed, .offset = offset, .last = last};
  return dropout.keeps(element);
}

/// What the probabilities of pairs are multiplied with.
struct DropoutFactors {
  unsigned long long seed, offset;
  unsigned last;
  float factor;
  int64_t line, cols;  // of the first query, and how many elements a line has

  __device__ DropoutFactors(const AttentionCall& call, const HeadPlace& place)
      : seed(call.dropout.seed),
        offset(call.dropout.offset),
        last(call.dropout.last),
        factor(static_cast<float>(call.dropout.factor)),
        line(line_of(call, place, 0)),
        cols(call.dropout_cols) {}
  __device__ float of(int query, int key) const {
    return keeps_element(seed, offset, last, (line + query) * cols + key) ? factor : 0.0f;
  }
};

/// Whether scores need more than their scale: a mask, dropout, or a scale that would turn the
/// order of the scores around.
inline bool has_extras(const AttentionCall& call) {
  return call.mask.data || call.dropout.on || !(call.scale > 0);
}

}  // namespace tensora::cuda
