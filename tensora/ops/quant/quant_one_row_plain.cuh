#pragma once

// Internal header
// The kernel behind few_rows for one row of activations and weights of 16 bits.

#include "tensora/ops/quant/quant_one_row.cuh"

// Note [One row times plain weights]
// Weights of 16 bits are operands as they are: a thread loads its numbers straight into registers.
// Eight loads of 16 bytes for either of its two rows are always on their way; as soon as one has
// been multiplied, the register waits for the next chunk's. All columns of a tile hold the same
// activations, so that sums run on from chunk to chunk.

namespace tensora::cuda {

struct PlainShape {
  static constexpr int kWarps = 12, kThreads = kWarps * 32, kChunk = 256, kSections = 8;
};

/// The chunks of a warp, one after the other, tile after tile.
struct PlainCursor {
  int tile, chunk;
  const char* rows[2];  // of this chunk, where the thread's first numbers are

  __device__ void find(const RowsCall& call) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, c = static_cast<int>(threadIdx.x) % 4;
    const RowsPlace place = rows_of_tile(call, min(tile, call.tiles - 1));
#pragma unroll
    for (int half = 0; half < 2; ++half)
      rows[half] = place.row(half, g) + chunk * PlainShape::kChunk * 2 + 16 * c;
  }
  __device__ void advance(const RowsCall& call, int chunks, int rank, int stride) {
    chunk += call.team;
    if (chunk < chunks) {
      rows[0] += call.team * PlainShape::kChunk * 2;
      rows[1] += call.team * PlainShape::kChunk * 2;
      return;
    }
    chunk = rank;
    tile += stride;
    find(call);
  }
  /// Numbers of section `s`; zeros behind the row's end.
  __device__ uint4 load(const RowsCall& call, int half, int s) const {
    const int at = chunk * PlainShape::kChunk + s * 32 + static_cast<int>(threadIdx.x) % 4 * 8;
    if (tile >= call.tiles || at >= call.k) return {};
    uint4 words;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(rows[half] + s * 64));
    return words;
  }
};

__device__ inline void wait_for_team(int team, int warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(team + 2), "r"(warps * 32) : "memory");
}

template <class T>
__global__ void __launch_bounds__(kStepBound, 1)
    multiply_plain_row(const __grid_constant__ RowsCall call) {
  using Shape = PlainShape;
  extern __shared__ __align__(128) char shared[];
  __shared__ float joined[2][Shape::kWarps * kTileWeights];
  if (!call.begins_late) begin_next();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, c = lane % 4;
  const int chunks = (call.k + Shape::kChunk - 1) / Shape::kChunk;
  const int size = call.team, team = warp / size, rank = warp % size;
  const int first = team * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  const int stride = Shape::kWarps / size * static_cast<int>(gridDim.x);
  PlainCursor next{rank < chunks ? first : call.tiles, rank, {}};
  next.find(call);
  uint4 words[Shape::kSections][2];
#pragma unroll
  for (int s = 0; s < Shape::kSections; ++s)
#pragma unroll
    for (int half = 0; half < 2; ++half) words[s][half] = next.load(call, half, s);
  stage_activations<T, Shape::kThreads>(call, chunks * Shape::kChunk, shared);
  __syncthreads();
  int side = 0;
  for (int tile = first; tile < call.tiles; tile += stride, side ^= 1) {
    const OneResult result(call, tile);
    // Read before the sum is there.
    const float residual =
        rank == 0 && result.n >= 0 ? residual_of(call, result.weight, 0, result.n) : 0.0f;
    float sums[4] = {};
    for (int chunk = rank; chunk < chunks; chunk += size) {
      next.advance(call, chunks, rank, stride);
      const char* const x = shared + chunk * Shape::kChunk * 2 + 16 * c;
#pragma unroll
      for (int s = 0; s < Shape::kSections; ++s) {
        const auto b = *reinterpret_cast<const uint4*>(x + s * 64);
        const uint4 low = words[s][0], high = words[s][1];
        const unsigned even[4] = {low.x, high.x, low.y, high.y};
        const unsigned odd[4] = {low.z, high.z, low.w, high.w};
        multiply_add<T>(sums, even, b.x, b.y);
        multiply_add<T>(sums, odd, b.z, b.w);
#pragma unroll
        for (int half = 0; half < 2; ++half) words[s][half] = next.load(call, half, s);
      }
    }
    if (c == 0) {
      joined[side][warp * kTileWeights + g] = sums[0];
      joined[side][warp * kTileWeights + g + 8] = sums[2];
    }
    wait_for_team(team, size);
    if (rank > 0) continue;
    float sum = 0, up = 0;
    for (int w = 0; w < size; ++w) {
      const float* const from = joined[side] + (warp + w) * kTileWeights;
      sum += from[lane % kTileWeights];
      up += from[(lane + kTileWeights / 2) % kTileWeights];
    }
    if (result.n >= 0) store_product(call, result.weight, 0, result.n, sum, up, residual);
  }
  if (call.joins) wait_for_previous();
}

/// How many of `warps` warps share a tile: so many that the one with the most parts has few.
inline int team_for(int warps, int tiles, int parts, int multiprocessors) {
  int best = 1;
  const auto steps = [&](int team) {
    const int teams = warps / team * multiprocessors;
    return (tiles + teams - 1) / teams * ((parts + team - 1) / team);
  };
  for (int team = 2; team <= warps; ++team)
    if (warps % team == 0 && steps(team) < steps(best)) best = team;
  return best;
}

template <class T>
void launch_plain_row(std::string_view op, int device, RowsCall call) {
  using Shape = PlainShape;
  const int chunks = (call.k + Shape::kChunk - 1) / Shape::kChunk;
  const int multiprocessors = device_info(device).multiprocessors;
  call.team = team_for(Shape::kWarps, call.tiles, chunks, multiprocessors);
  const int teams = Shape::kWarps / call.team;
  const int blocks = std::min(multiprocessors, (call.tiles + teams - 1) / teams);
  const auto kernel = multiply_plain_row<T>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), kMostBytes);
  prefer_shared_memory(device, reinterpret_cast<const void*>(kernel), kStepSharedPercent);
  Launch{op, device, static_cast<unsigned>(chunks * Shape::kChunk * 2), true}(
      kernel, dim3(static_cast<unsigned>(blocks)), dim3(Shape::kThreads), call);
}

}  // namespace tensora::cuda
