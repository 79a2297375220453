#pragma once

// Products of small matrices by a warp (mma.sync, from sm_80 on). Embedded as text for NVRTC.

#include "tensora/backend/cuda/loops/elements.cuh"

namespace tensora::cuda {

#if defined(__CUDACC__)

/// The 16 x 16 part of a row-major matrix in shared memory that begins at `corner`, as mma's left
/// factor. Rows begin at multiples of 16 bytes.
template <class T>
__device__ inline void load_left(const T* corner, int row_stride, unsigned (&to)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const T* const row = corner + lane % 16 * row_stride + lane / 16 * 8;
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// The 16 x 8 part of a row-major matrix as mma's right factor.
template <class T>
__device__ inline void load_right(const T* corner, int row_stride, unsigned (&to)[2]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto address =
      static_cast<unsigned>(__cvta_generic_to_shared(corner + lane % 16 * row_stride));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(to[0]), "=r"(to[1])
               : "r"(address)
               : "memory");
}

/// sum += left (16 x 16) times right (16 x 8). Of the sum a lane holds columns 2 (lane % 4) and
/// the next one, of rows lane / 4 (first two) and lane / 4 + 8.
template <class T>
__device__ inline void multiply_add(float* sum, const unsigned (&left)[4],
                                    const unsigned (&right)[2]) {
  if constexpr (is_bfloat16_type<T>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

#endif

}  // namespace tensora::cuda
