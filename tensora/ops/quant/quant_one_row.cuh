#pragma once

// Internal header
// The kernel behind few_rows for a single row of activations.

#include "tensora/ops/quant/quant_row_copies.cuh"

// Note [One row times quantized weights]
// When tokens are made one by one a product reads its weights once, in microseconds, and most of
// the time that it could lose is lost waiting: for the kernel before, for the first weights, for
// the last warp. So one block stays on every multiprocessor and takes one tile of 16 weight rows
// after the other; eight warps share the chunks of a tile, while others request the next ones
// (Note [Copies by the run]), the first of them before the previous kernel has ended. A block takes
// so much shared memory that two do not fit: where they do, the next kernel's blocks, which begin
// early, find room beside one another on the multiprocessors that are free first, and leave the
// others idle. The activations lie in shared memory. If the call has a norm, every block computes
// it for itself, which costs less than a kernel that all others wait for. One row leaves seven
// columns of a tile idle. So column n holds the row's n-th group: of the product of group j with
// all columns, column j is taken, and every thread has the scales of two groups, instead of all
// threads those of all groups. The parts of eight tiles meet at once, and each warp finishes one.

namespace tensora::cuda {

inline constexpr int kMostBytes = 200 << 10;
/// What such kernels state as their most threads: so few registers that attention's blocks fit
/// beside theirs; for weights of 16 bits, which take little shared memory, so many that no second
/// block does.
inline constexpr int kStepBound = 512;
/// Of shared memory, at least: more than half of what kStepSharedPercent stands for.
inline constexpr int kLeastBytes = 84 << 10;

// A group's activations, held by four lanes, as float16 times a power of two; returns its inverse.
template <int words>
__device__ inline float normalise_group(unsigned (&b)[words]) {
  unsigned most = 0;  // the largest magnitude, as bfloat16 in the high half
#pragma unroll
  for (const unsigned word : b) {
    const unsigned bits = word & 0x7fff7fffu;
    most = max(most, max(bits, bits << 16));
  }
  most = max(most, __shfl_xor_sync(kWholeWarp, most, 1));
  most = max(most, __shfl_xor_sync(kWholeWarp, most, 2));
  // Brought to between 2^14 and 2^15; what is below 2^-113 counts as 0.
  const unsigned exponent = max(most >> 23, 14u);
  const float factor = __builtin_bit_cast(float, (268 - exponent) << 23);
#pragma unroll
  for (unsigned& word : b)
    word = round_pair<Half>(__builtin_bit_cast(float, word << 16) * factor,
                            __builtin_bit_cast(float, word & 0xffff0000u) * factor);
  return __builtin_bit_cast(float, (exponent - 14) << 23);
}

// One row of activations: sums[half] is this thread's part of weight row g + 8 half.
template <class Tile>
__device__ inline void multiply_chunk_one(
    const char* const (&rows)[2], const unsigned* table,
    unsigned (&b)[RowsShape<Tile>::kParts][RowsShape<Tile>::kWords], float (&sums)[2]) {
  using Shape = RowsShape<Tile>;
  const int c = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int part = 0; part < Shape::kParts; ++part) {
    Factors low = factors_of<Tile>(rows[0], 4 * part + c);
    Factors high = factors_of<Tile>(rows[1], 4 * part + c);
    if constexpr (Tile::kNormalised) {
      const float inverse = normalise_group(b[part]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float own = __shfl_sync(kWholeWarp, inverse, 8 * c + 4 * i);
        low.scale[i] *= own, low.low[i] *= own;
        high.scale[i] *= own, high.low[i] *= own;
      }
    }
#pragma unroll
    for (int s = part * Shape::kPartSections; s < (part + 1) * Shape::kPartSections; ++s) {
      unsigned first[Tile::kSectionGroups][Tile::kTerms][Shape::kWords];
      unsigned second[Tile::kSectionGroups][Tile::kTerms][Shape::kWords];
      Tile::section(rows[0], c, s, table, first);
      Tile::section(rows[1], c, s, table, second);
#pragma unroll
      for (int i = 0; i < Tile::kSectionGroups; ++i) {
        const int column = Tile::group(s, i) % 8;
        float products[4] = {};
        multiply_group<Tile, Shape::kWords>(products, first[i], second[i], b[part]);
        if (c == column / 2) {
          sums[0] = fmaf(products[column % 2], low.scale[column % 2], sums[0]);
          sums[1] = fmaf(products[2 + column % 2], high.scale[column % 2], sums[1]);
        }
      }
    }
    if constexpr (!Tile::kCentred) {
      float total[4] = {};
      add_up<typename Tile::Element>(total, b[part]);
      sums[0] -= low.low[0] * total[0] + low.low[1] * total[1];
      sums[1] -= high.low[0] * total[0] + high.low[1] * total[1];
    }
  }
}

// The activations as they are.
template <int threads>
__device__ inline void stage_row(const RowsCall& call, int padded, char* to) {
  const auto* const from = reinterpret_cast<const uint4*>(call.x);
  for (int i = static_cast<int>(threadIdx.x); i < padded / 8; i += threads)
    reinterpret_cast<uint4*>(to)[i] = i < call.k / 8 ? __ldcg(from + i) : uint4{};
}

template <int threads>
__device__ inline void wait_for_threads() {
  asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
}

/// Activations that are still to be normalised: what of the norm's weight a thread needs, read
/// before the previous kernel has ended.
template <class T, int threads>
struct StagedNorm {
  static constexpr int kKept =
      1024 / threads + 1;  // times four numbers; what is beyond is read twice
  float4 weight[kKept];

  __device__ explicit StagedNorm(const RowsCall& call) {
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      weight[i] = place(i) < call.k / 4 ? at(call.norm, place(i)) : float4{};
  }
  __device__ static int place(int i) { return static_cast<int>(threadIdx.x) + i * threads; }
  __device__ static float4 at(const void* from, int i) {
    return __ldcg(static_cast<const float4*>(from) + i);
  }
  __device__ static float square(const float4& x) {
    return x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
  }
  __device__ static void store(char* to, int i, const float4& x, const float4& w, float factor) {
    reinterpret_cast<uint2*>(to)[i] = {round_pair<T>(x.x * factor * w.x, x.y * factor * w.y),
                                       round_pair<T>(x.z * factor * w.z, x.w * factor * w.w)};
  }

  __device__ void stage(const RowsCall& call, int padded, char* to) const {
    __shared__ float sums[threads / 32];
    const int count = call.k / 4;
    float4 kept[kKept];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kKept; ++i) kept[i] = place(i) < count ? at(call.x, place(i)) : float4{};
#pragma unroll
    for (int i = 0; i < kKept; ++i) squares += square(kept[i]);
    for (int i = place(kKept); i < count; i += threads) squares += square(at(call.x, i));
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      squares += __shfl_xor_sync(kWholeWarp, squares, distance);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
    wait_for_threads<threads>();
    squares = 0;
#pragma unroll
    for (float sum : sums) squares += sum;
    const float factor = rsqrtf(squares / static_cast<float>(call.k) + call.eps);
#pragma unroll
    for (int i = 0; i < kKept; ++i)
      if (place(i) < count) store(to, place(i), kept[i], weight[i], factor);
    for (int i = place(kKept); i < count; i += threads)
      store(to, i, at(call.x, i), at(call.norm, i), factor);
    for (int i = count + static_cast<int>(threadIdx.x); i < padded / 4; i += threads)
      reinterpret_cast<uint2*>(to)[i] = {};
  }
};

// The weight row whose result this lane stores, or -1.
struct OneResult {
  const RowsWeight& weight;
  int n = -1;

  __device__ OneResult(const RowsCall& call, int tile)
      : weight(call.weights[weight_of_tile(call, tile)]) {
    const int each = call.gate != RowsCall::Gate::none ? kTileWeights / 2 : kTileWeights;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = (tile - weight.first_tile) * each + lane;
    if (lane < each && row < weight.rows) n = row;
  }
};

// See Note [Launches side by side].
__device__ inline void wait_in_front(const RowsCall& call) {
  if (!call.joins) wait_for_previous();
  if (call.begins_late) begin_next();
}

template <class T, int threads>
__device__ inline void stage_activations(const RowsCall& call, int padded, char* shared) {
  if (call.norm) {
    const StagedNorm<T, threads> norm(call);
    wait_in_front(call);  // all but the weights may be its results
    norm.stage(call, padded, shared);
  } else {
    wait_in_front(call);
    stage_row<threads>(call, padded, shared);
  }
}

/// Activations as they are, and weights made what they are. (RowAsBytes: both as bytes.)
template <class TileOf, class Number>
struct RowAsFloats {
  using Tile = TileOf;
  using T = Number;
  /// Of shared memory, for `padded` numbers.
  __host__ __device__ static constexpr int bytes(int padded) { return padded * 2; }
  /// Waits for the previous kernel, and brings the activations there.
  template <int threads>
  __device__ static void stage(const RowsCall& call, int padded, char* shared) {
    stage_activations<T, threads>(call, padded, shared);
  }
  __device__ static void multiply(const char* x, int, int chunk, const char* const (&rows)[2],
                                  const unsigned* table, float (&sums)[2]) {
    using Shape = RowsShape<Tile>;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, c = static_cast<int>(threadIdx.x) % 4;
    unsigned b[Shape::kParts][Shape::kWords];
#pragma unroll
    for (int part = 0; part < Shape::kParts; ++part) {
      // Columns that a chunk of fewer groups leaves free are not taken.
      const int group = min(part * 8 + g, Shape::kGroups - 1);
      load_activations<Tile>(x + (chunk * Tile::kChunk + group * Tile::kGroup) * 2, c, true,
                             b[part]);
    }
    multiply_chunk_one<Tile>(rows, table, b, sums);
  }
};

/// The tiles whose parts meet at once: one for each warp.
template <class Shape>
struct JoinedTiles {
  float parts[2][Shape::kWarps][Shape::kWarps][kTileWeights];  // side, tile, warp, row

  __device__ void finish(const RowsCall& call, const OneResult& result, int side, int tile,
                         float residual) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float sum = 0, up = 0;
#pragma unroll
    for (const auto& part : parts[side][tile]) {
      sum += part[lane % kTileWeights];
      up += part[(lane + kTileWeights / 2) % kTileWeights];
    }
    if (result.n >= 0) store_product(call, result.weight, 0, result.n, sum, up, residual);
  }
};

template <class Row>
__global__ void __launch_bounds__(kStepBound, 1)
    multiply_one_row(const __grid_constant__ RowsCall call) {
  using Tile = typename Row::Tile;
  using Shape = OneRowShape<Tile>;
  extern __shared__ __align__(128) char shared[];
  __shared__ JoinedTiles<Shape> joined;
  __shared__ unsigned table[Tile::kTable > 0 ? Tile::kTable : 1];
  __shared__ typename RowStages<Tile>::Barriers barriers;
  if (!call.begins_late) begin_next();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, c = lane % 4;
  const int chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk, padded = chunks * Tile::kChunk;
  const int spans = (chunks + Shape::kWarps - 1) / Shape::kWarps;
  const int first = static_cast<int>(blockIdx.x), stride = static_cast<int>(gridDim.x);
  RowStages<Tile> stages(shared + Row::bytes(padded), barriers, call.stages);
  if (threadIdx.x == 0) stages.init();
  if constexpr (Tile::kTable > 0)
    for (int i = static_cast<int>(threadIdx.x); i < Tile::kTable; i += Shape::kAllThreads)
      table[i] = Tile::table_word(i);
  __syncthreads();
  if (warp >= Shape::kWarps) {
#pragma unroll 1
    for (int tile = first; tile < call.tiles; tile += stride) {
      const RowsPlace place = rows_of_tile(call, tile);
#pragma unroll 1
      for (int span = 0; span < spans; ++span, stages.advance())
        stages.request(place, span * Shape::kSpanBytes);
    }
    return;
  }
  Row::template stage<Shape::kThreads>(call, padded, shared);
  wait_for_threads<Shape::kThreads>();
  int side = 0;
#pragma unroll 1
  for (int begin = first; begin < call.tiles; begin += Shape::kWarps * stride, side ^= 1) {
    // The tile that this warp finishes. What is added to it is read before the sum is there.
    const int own = begin + warp * stride;
    const OneResult result(call, min(own, call.tiles - 1));
    const float residual =
        own < call.tiles && result.n >= 0 ? residual_of(call, result.weight, 0, result.n) : 0.0f;
#pragma unroll 1
    for (int i = 0; i < Shape::kWarps && begin + i * stride < call.tiles; ++i) {
      const RowsPlace place = rows_of_tile(call, begin + i * stride);
      const char* const of_lane[2] = {place.row(0, g), place.row(1, g)};
      float sums[2] = {};
#pragma unroll 1
      for (int span = 0; span < spans; ++span, stages.advance()) {
        const int chunk = span * Shape::kWarps + warp, at = span * Shape::kSpanBytes;
        char* const stage = stages.wait() + warp * Tile::kBytes;
        if (chunk < chunks) {
          if (call.k % Tile::kChunk != 0 && chunk == chunks - 1)
            clear_behind<Tile>(stage, place, at, place.row_bytes - chunk * Tile::kBytes);
          const char* rows[2];
#pragma unroll
          for (int half = 0; half < 2; ++half)
            rows[half] = stage + (g + 8 * half) * Shape::kPitch + lead_of<Tile>(of_lane[half] + at);
          Row::multiply(shared, padded, chunk, rows, table, sums);
        }
        stages.release();
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sums[half] += __shfl_xor_sync(kWholeWarp, sums[half], 1);
        sums[half] += __shfl_xor_sync(kWholeWarp, sums[half], 2);
        if (c == 0) joined.parts[side][i][warp][g + 8 * half] = sums[half];
      }
    }
    wait_for_threads<Shape::kThreads>();
    if (own < call.tiles) joined.finish(call, result, side, warp, residual);
  }
  if (call.joins) wait_for_previous();
}

template <class Row>
void launch_one_row(std::string_view op, int device, RowsCall call) {
  using Tile = typename Row::Tile;
  using Shape = OneRowShape<Tile>;
  const int chunks = (call.k + Tile::kChunk - 1) / Tile::kChunk;
  const int blocks = std::min(device_info(device).multiprocessors, call.tiles);
  const int spans = (chunks + Shape::kWarps - 1) / Shape::kWarps * (call.tiles / blocks);
  call.stages = std::clamp(spans / 4, Shape::kStages, Shape::kMostStages);
  const int bytes =
      std::max(Row::bytes(chunks * Tile::kChunk) + call.stages * Shape::kStageBytes, kLeastBytes);
  const auto kernel = multiply_one_row<Row>;
  allow_shared_memory(device, reinterpret_cast<const void*>(kernel), kMostBytes);
  prefer_shared_memory(device, reinterpret_cast<const void*>(kernel), kStepSharedPercent);
  Launch{op, device, static_cast<unsigned>(bytes), true}(
      kernel, dim3(static_cast<unsigned>(blocks)), dim3(Shape::kAllThreads), call);
}

}  // namespace tensora::cuda
