#include "tests/cuda/hopper_sm90a.h"

#include <cstdint>

namespace tensora::test {
namespace {

constexpr int kM = 64, kN = 8, kK = 16;
constexpr int kCore = 8;  // rows of a core matrix, and its elements per row
constexpr unsigned kCoreBytes = kCore * kCore * 2;  // 16 bytes per row, rows side by side

// A tile in shared memory is made of core matrices; those beside each other along k are one core
// matrix apart, those along the rows two.
__device__ uint64_t descriptor(const uint16_t* tile) {
  const auto address = static_cast<uint64_t>(__cvta_generic_to_shared(tile));
  constexpr uint64_t kAlongK = kCoreBytes, kAlongRows = 2 * kCoreBytes;
  return (address & 0x3ffff) >> 4 | (kAlongK >> 4) << 16 | (kAlongRows >> 4) << 32;
}

__device__ void load_tile(const uint16_t* from, uint16_t* tile, int rows) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * kK; i += static_cast<int>(blockDim.x)) {
    const int row = i / kK, k = i % kK;
    const int core = row / kCore * (kK / kCore) + k / kCore;
    tile[core * kCore * kCore + row % kCore * kCore + k % kCore] = from[i];
  }
}

__global__ void __launch_bounds__(128)
    multiply_tile(const uint16_t* a, const uint16_t* b, float* out) {
  __shared__ alignas(128) uint16_t tile_a[kM * kK], tile_b[kN * kK];
  load_tile(a, tile_a, kM);
  load_tile(b, tile_b, kN);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, adds, 1, 1, "
      "0, "
      "0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(descriptor(tile_a)), "l"(descriptor(tile_b)), "r"(0));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  // A warp holds 16 rows, a lane two neighbours of one and two of the row eight below.
  const unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
  const unsigned col = lane % 4 * 2;
  for (unsigned i = 0; i < 4; ++i) out[(row + i / 2 * 8) * kN + col + i % 2] = d[i];
}

}  // namespace

cudaError_t wgmma_tile(const void* a, const void* b, float* out, cudaStream_t stream) {
  multiply_tile<<<1, 128, 0, stream>>>(static_cast<const uint16_t*>(a),
                                       static_cast<const uint16_t*>(b), out);
  return cudaGetLastError();
}

}  // namespace tensora::test
