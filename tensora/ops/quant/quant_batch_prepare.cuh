#pragma once

// Internal header
// Activations in the order of wgmma's operand. See Note [Batches times quantized weights].

#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/ops/quant/quant_batch.h"

namespace tensora::cuda {

inline constexpr int kPrepareThreads = 256;

/// Two floats as float16, the first in the low half.
__device__ inline unsigned half_pair(float low, float high) {
  unsigned result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
__device__ inline float half_value(unsigned bits) {
  float result;
  asm("{\n.reg .b16 low;\ncvt.u16.u32 low, %1;\ncvt.f32.f16 %0, low;\n}\n"
      : "=f"(result)
      : "r"(bits));
  return result;
}

/// A row's pieces of eight numbers, as a block of threads holds them: all loads are in flight at
/// once. What does not fit is read twice.
struct HeldActivations {
  static constexpr int kHeld = 8;
  const uint4* row;
  int count;
  uint4 held[kHeld];

  __device__ HeldActivations(const char* from, int numbers)
      : row(reinterpret_cast<const uint4*>(from)), count(numbers / 8) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      held[i] = read(static_cast<int>(threadIdx.x) + i * kPrepareThreads);
  }
  __device__ uint4 read(int i) const { return i < count ? __ldcg(row + i) : uint4{}; }
  /// The bits of the largest magnitude of eight numbers.
  __device__ static unsigned largest_of(const uint4& words) {
    unsigned bits = 0;
    for (unsigned word : {words.x, words.y, words.z, words.w})
      bits = max(bits, max(word & 0x7fffu, word >> 16 & 0x7fffu));
    return bits;
  }
  /// The exponent of the row's largest magnitude, as bfloat16 has it; 255 where a number is not
  /// finite.
  __device__ unsigned largest_exponent() const {
    __shared__ unsigned largest[kPrepareThreads / 32];
    unsigned bits = 0;
#pragma unroll
    for (const uint4& words : held) bits = max(bits, largest_of(words));
    for (int i = static_cast<int>(threadIdx.x) + kHeld * kPrepareThreads; i < count;
         i += kPrepareThreads)
      bits = max(bits, largest_of(read(i)));
    bits = __reduce_max_sync(~0u, bits);
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = bits;
    __syncthreads();
    for (unsigned other : largest) bits = max(bits, other);
    return bits >> 7;
  }
};

/// The sum of a group as two numbers of float16.
__device__ inline void store_sum(char* step, int width, float sum, int high_at, int low_at) {
  const unsigned high = half_pair(sum, 0);
  const unsigned low = half_pair(sum - half_value(high), 0);
  const auto place = [&](int k) {
    return reinterpret_cast<unsigned short*>(step + k / 8 * width * 16 + k % 8 * 2);
  };
  *place(high_at) = static_cast<unsigned short>(high);
  *place(low_at) = static_cast<unsigned short>(low);
}

/// Eight numbers of a chunk, one lane's, times `factor`. tile: the row's place in its chunk's tile.
__device__ inline void store_piece(const uint4& words, float factor, char* tile, int width) {
  const int lane = static_cast<int>(threadIdx.x) % 32, group = lane / 4, c = lane % 4;
  const unsigned pairs[4] = {words.x, words.y, words.z, words.w};
  float numbers[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const unsigned bits = i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000u;
    numbers[i] = factor == 0 ? 0.0f : __builtin_bit_cast(float, bits) * factor;
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int first = i / 2 * 4 + i % 2;
    const unsigned pair = half_pair(numbers[first], numbers[first + 2]);
    sum += half_value(pair) + half_value(pair >> 16);
    *reinterpret_cast<unsigned*>(tile + (4 * group + i) * width * 16 + 4 * c) = pair;
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  if (c % 2 == 0)  // groups of 16
    store_sum(tile + BatchRows::kFineSumsAt * width, width, sum, lane / 2, 16 + lane / 2);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (c == 0) store_sum(tile + BatchRows::kSumsAt * width, width, sum, group, 8 + group);
}

/// A block of threads has a row, a warp a chunk of it, and a lane eight numbers.
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_batch_rows(const char* x, int k, const BatchRows to) {
  begin_next();
  wait_for_previous();
  const int number = static_cast<int>(blockIdx.x);
  const HeldActivations row(x + int64_t{number} * k * 2, k);
  const unsigned found = row.largest_exponent();
  // The largest becomes a number from 128 to 255. Where one is not finite, all become 0.
  const unsigned exponent = found == 0 ? 134u : max(found, 8u);
  const bool finite = exponent < 255;
  const float factor = finite ? __builtin_bit_cast(float, (261 - exponent) << 23) : 0.0f;
  if (threadIdx.x == 0)
    const_cast<float*>(to.scales)[number] =
        finite ? __builtin_bit_cast(float, (exponent - 7) << 23) : __builtin_nanf("");
  const int width = to.width;
  char* const first = const_cast<char*>(to.x) +
                      int64_t{number / width} * to.chunks * to.tile_bytes() + number % width * 16;
  constexpr int kWarps = kPrepareThreads / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < HeldActivations::kHeld; ++i)
    if (const int chunk = warp + i * kWarps; chunk < to.chunks)
      store_piece(row.held[i], factor, first + chunk * to.tile_bytes(), width);
  for (int chunk = warp + HeldActivations::kHeld * kWarps; chunk < to.chunks; chunk += kWarps)
    store_piece(row.read(chunk * 32 + static_cast<int>(threadIdx.x) % 32), factor,
                first + chunk * to.tile_bytes(), width);
}

}  // namespace tensora::cuda
