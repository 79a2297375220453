#pragma once

// Internal header
// The kernel behind batch_rows; quant_batch_*_sm90a.cu have its instances.

#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/runtime/cluster.h"
#include "tensora/backend/cuda/runtime/shared_memory.h"
#include "tensora/ops/attention/hopper.cuh"
#include "tensora/ops/quant/quant_batch_formats.cuh"
#include "tensora/ops/quant/quant_batch_tiles.h"
#include "tensora/ops/quant/quant_results.cuh"

// Note [Batches times quantized weights]
// A thread block multiplies 128 weight rows by up to 128 rows of activations, 256 numbers (a chunk)
// at a time. Each of its 8 warps copies the packed weights of 16 rows to shared memory by cp.async,
// whatever their alignment, several chunks ahead, and unpacks them straight into the registers from
// which wgmma reads operand A. One thread copies the activations, which prepare_batch_rows has
// brought into the order of wgmma's operand B (BatchRows). So a weight is read once and unpacked
// once for 128 rows, and only packed weights pass through memory.
//
// Operands are exact (Note [Weights as float16 operands]; a row of bfloat16 activations is brought
// into float16's range by a power of two), products and sums are float32: results differ from the
// definition's by the order of sums alone, except where that note says so.
//
// Where there are fewer tiles than multiprocessors, the blocks of a cluster share the chunks of a
// tile and add up through distributed shared memory, in the order of their numbers. Up to 64 rows
// of activations the order of sums depends on the weights' sizes and the number of multiprocessors,
// not on the number of rows.

namespace tensora::cuda {

inline constexpr int kBatchWarps = kBatchWeights / 16, kBatchThreads = kBatchWarps * 32;
/// Thread blocks on a multiprocessor: the sums of 128 rows of activations take all registers.
constexpr int batch_blocks(int width) { return width > 64 ? 1 : 2; }
inline constexpr int kBatchSumPitch = kBatchWeights + 4;  // floats; four rows, different banks
inline constexpr int kBatchMostStages = 6;
inline constexpr int kBatchShared = 224 << 10;

template <class Format, int width>
struct BatchShape {
  static constexpr int kRowsBytes =
      width * (Format::kLows == Lows::none           ? BatchRows::kSumsAt
               : Format::kLows == Lows::groups_of_32 ? BatchRows::kFineSumsAt
                                                     : BatchRows::kEnd);
  static constexpr int kWeightBytes = (kBatchWeights * Format::kPitch + 127) / 128 * 128;
  static constexpr int kSumBytes = width * kBatchSumPitch * 4;
  static constexpr int kShared = kBatchShared / batch_blocks(width);
  /// Weights come from memory and activations from the second-level cache, which is nearer.
  static constexpr int kRowStages = 2;
  static constexpr int kFitting = (kShared - kRowStages * kRowsBytes) / kWeightBytes;
  static constexpr int kWeightStages = kFitting < 2                  ? 2
                                       : kFitting < kBatchMostStages ? kFitting
                                                                     : kBatchMostStages;
  static constexpr int kWeightsAt = kRowStages * kRowsBytes;
  static constexpr int kBytes = kWeightsAt + kWeightStages * kWeightBytes;
  static_assert((Format::kBytes + 31 - Format::kAlign) / 16 * 16 <= Format::kPitch);
  static_assert(kRowsBytes % 128 == 0 && kSumBytes <= kBytes);
};

// ---- wgmma

/// Rows of 16 bytes without a pattern: `width` of them are half a step.
__device__ inline uint64_t plain_descriptor(unsigned address, unsigned half_bytes) {
  constexpr uint64_t kEightRows = uint64_t{128 >> 4} << 32;
  return (uint64_t{address & 0x3ffff} >> 4) | uint64_t{half_bytes >> 4} << 16 | kEightRows;
}

/// d (64 x 16) = a (64 x 16, in registers) @ b^T (b: 16 x 16), plus d if `adds`.
__device__ inline void multiply_step(float (&d)[8], const unsigned (&a)[4], uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
      "{%8, %9, %10, %11}, %12, adds, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
__device__ inline void multiply_step(float (&d)[16], const unsigned (&a)[4], uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, adds, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}
__device__ inline void multiply_step(float (&d)[32], const unsigned (&a)[4], uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
      "%10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
      "%28, %29, %30, %31}, {%32, %33, %34, %35}, %36, adds, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

__device__ inline void multiply_step(float (&d)[64], const unsigned (&a)[4], uint64_t b, int adds) {
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
      "%27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, "
      "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, "
      "%63}, {%64, %65, %66, %67}, %68, "
      "adds, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

/// Waits for products, and keeps the compiler from reading their sums before.
template <int pending, int count>
__device__ inline void wait_for_sums(float (&sums)[count]) {
  hopper::wait_for_products<pending>();
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

// ---- where things are

/// The 128 weight rows of a tile. Gated: of 16 rows, eight are the first matrix's.
struct BatchTile {
  const RowsWeight& weight;
  int first;
  bool gated;

  __device__ BatchTile(const RowsCall& call, int tile)
      : weight(call.weights[weight_of_tile(call, tile)]), gated(call.gate != RowsCall::Gate::none) {
    first = (tile - weight.first_tile) * (gated ? kBatchWeights / 2 : kBatchWeights);
  }
  /// The weight's row at place i of 128; it may be behind the last one.
  __device__ int number(int i) const { return first + (gated ? i / 16 * 8 + i % 8 : i); }
  __device__ const char* row(int i) const {
    const char* const data = gated && i % 16 >= 8 ? weight.up : weight.data;
    return data + int64_t{min(number(i), weight.rows - 1)} * weight.row_bytes;
  }
};

template <class Format>
__device__ inline int batch_lead(const char* from) {
  return Format::kAlign < 16 ? static_cast<int>(reinterpret_cast<uintptr_t>(from) & 15) : 0;
}

/// Of the stages of activations.
struct BatchBarriers {
  uint64_t full[2];
  unsigned done[2];  // warps that have read the stage, counted on and on
};

/// The rings of stages, as one thread goes through them.
template <class Format, int width>
struct BatchRing {
  using Shape = BatchShape<Format, width>;
  unsigned memory, full;
  char* data;
  unsigned* done;
  unsigned stage = 0, parity = 0, weight_stage = 0;

  __device__ BatchRing(char* stages, BatchBarriers& barriers)
      : memory(static_cast<unsigned>(__cvta_generic_to_shared(stages))),
        full(static_cast<unsigned>(__cvta_generic_to_shared(barriers.full))),
        data(stages),
        done(barriers.done) {}
  __device__ void advance() {
    if (++stage == Shape::kRowStages) stage = 0, parity ^= 1;
    if (++weight_stage == Shape::kWeightStages) weight_stage = 0;
  }
  __device__ void wait_full() const { wait_for_barrier(full + 8 * stage, parity); }
  __device__ unsigned rows_at(unsigned i) const { return memory + i * Shape::kRowsBytes; }
  __device__ unsigned weights_at(unsigned i) const {
    return memory + Shape::kWeightsAt + i * Shape::kWeightBytes;
  }
  __device__ const char* weights() const {
    return data + Shape::kWeightsAt + weight_stage * Shape::kWeightBytes;
  }
  /// Tells that a warp has read the activations; true for the last one of a stage.
  __device__ bool release_rows() const {
    unsigned before;
    asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(done + stage)))
                 : "memory");
    return before % kBatchWarps == kBatchWarps - 1;
  }
};

// ---- copies

/// The packed weights of a warp's 16 rows, chunk by chunk, in pieces of 16 bytes.
template <class Format>
struct BatchCopies {
  static constexpr int kPieces = (Format::kBytes + 15 + 16 - Format::kAlign) / 16;
  static constexpr int kAll = 16 * kPieces, kEach = (kAll + 31) / 32;
  const char* first_rows[2];   // of either half of the rows
  unsigned from_first[kEach];  // bytes from there to the row of each of this lane's pieces
  int row_bytes;

  __device__ BatchCopies(const BatchTile& tile, int first)
      : row_bytes(static_cast<int>(tile.weight.row_bytes)) {
#pragma unroll
    for (int i = 0; i < 2; ++i) first_rows[i] = tile.row(first + 8 * i);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      from_first[i] = static_cast<unsigned>(tile.row(first + row(i)) -
                                            (row(i) < 8 ? first_rows[0] : first_rows[1]));
  }
  __device__ static int row(int i) { return min(number(i), kAll - 1) / kPieces; }
  __device__ static int number(int i) { return static_cast<int>(threadIdx.x) % 32 + 32 * i; }

  /// Requests a chunk; what lies behind a row's end becomes 0.
  __device__ void request(int chunk, unsigned to) const {
    const int at = chunk * Format::kBytes;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int piece = number(i) % kPieces;
      const char* const chunk_from =
          (row(i) < 8 ? first_rows[0] : first_rows[1]) + from_first[i] + at;
      const int lead = batch_lead<Format>(chunk_from);
      const bool needed = 16 * piece < lead + Format::kBytes;
      if ((kAll % 32 == 0 || i + 1 < kEach || number(i) < kAll) && needed) {
        // Blocks of 256 are whole.
        const int left = Format::kAlign == 16 ? 16 : row_bytes - at + lead - 16 * piece;
        const int bytes = min(max(left, 0), 16);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                         to + static_cast<unsigned>(row(i) * Format::kPitch + 16 * piece)),
                     "l"(chunk_from - lead + (bytes > 0 ? 16 * piece : 0)), "r"(bytes));
      }
    }
  }
};

/// The activations of chunks, copied by one thread.
template <class Format, int width>
struct BatchRowsCopies {
  using Shape = BatchShape<Format, width>;
  const char* from;  // chunk 0
  int64_t bytes;     // of a chunk

  __device__ BatchRowsCopies(const BatchRows& rows, int block)
      : from(rows.x + int64_t{block} * rows.chunks * rows.tile_bytes()), bytes(rows.tile_bytes()) {}
  __device__ void request(int chunk, unsigned to, unsigned barrier) const {
    expect_bytes(barrier, Shape::kRowsBytes);
    copy_run(to, from + chunk * bytes, Shape::kRowsBytes, barrier);
  }
};

// ---- products

/// sums += a chunk of 64 weight rows times activations. rows: this thread's two weight rows.
template <class Format, int width>
__device__ inline void multiply_batch_chunk(const char* const (&rows)[2], unsigned activations,
                                            float (&sums)[width / 2], float (&parts)[width / 2]) {
  constexpr unsigned kStep = width * 32;
  const int c = static_cast<int>(threadIdx.x) % 4;
  const typename Format::Chunk chunks[2] = {{rows[0], c}, {rows[1], c}};
  const uint64_t b = plain_descriptor(activations, kStep / 2);
  // Two groups at a time share loads, and synchronize the warpgroup half as often.
  constexpr int kSection = Format::kEvery > 1 && Format::kTerms == 1 ? 2 : 1;
  unsigned a[2][kSection][Format::kTerms][2][4];
  const auto unpack = [&](int section) {
#pragma unroll
    for (int i = 0; i < kSection; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int t = section * kSection + i;
        Format::numbers(rows[half], chunks[half], c, t, a[section % 2][i][0][half]);
        if constexpr (Format::kTerms == 2)
          Format::rests(rows[half], c, t, a[section % 2][i][1][half]);
      }
  };
  const auto add_parts = [&](float low, float high) {
#pragma unroll
    for (int i = 0; i < width / 2; ++i) sums[i] = fmaf(parts[i], i % 4 < 2 ? low : high, sums[i]);
  };
  unpack(0);
#pragma unroll
  for (int section = 0; section < 8 / kSection; ++section) {
    const int t = section * kSection;
    const bool first = t % Format::kEvery == 0;
    const bool last = t % Format::kEvery == Format::kEvery - kSection;
    hopper::fence_registers();
#pragma unroll
    for (int i = 0; i < 2 * kSection * Format::kTerms; ++i) {
      const int group = i / (2 * Format::kTerms), term = i / 2 % Format::kTerms, step = i % 2;
      const auto& low = a[section % 2][group][term][0];
      const auto& high = a[section % 2][group][term][1];
      const unsigned operand[4] = {low[2 * step], high[2 * step], low[2 * step + 1],
                                   high[2 * step + 1]};
      multiply_step(parts, operand, b + (2 * (t + group) + step) * (kStep >> 4), !first || i > 0);
    }
    hopper::close_products();
    if (!last) hopper::wait_for_products<1>();  // the other operand is free
    if (t + kSection < 8) unpack(section + 1);
    if (last) {
      wait_for_sums<0>(parts);
      add_parts(Format::factor(rows[0], chunks[0], t), Format::factor(rows[1], chunks[1], t));
    }
  }
  if constexpr (Format::kLows != Lows::none) {
    constexpr bool kFine = Format::kLows == Lows::groups_of_16;
    const uint64_t totals = b + (kFine ? 17 : 16) * (kStep >> 4);
    const unsigned operand[4] = {
        Format::low(rows[0], chunks[0], c, 0), Format::low(rows[1], chunks[1], c, 0),
        Format::low(rows[0], chunks[0], c, 1), Format::low(rows[1], chunks[1], c, 1)};
    hopper::fence_registers();
    multiply_step(parts, operand, totals, 0);
    if constexpr (kFine) multiply_step(parts, operand, totals + (kStep >> 4), 1);
    hopper::close_products();
    wait_for_sums<0>(parts);
    add_parts(Format::low_factor(rows[0], chunks[0]), Format::low_factor(rows[1], chunks[1]));
  }
}

/// A warp: its 16 rows of all chunks, then their sums in shared memory, by row of activations.
template <class Format, int width>
__device__ void multiply_batch(const BatchTile& tile, const BatchRowsCopies<Format, width>& x,
                               int begin, int end, BatchRing<Format, width> ring,
                               float* shared_sums) {
  using Shape = BatchShape<Format, width>;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, c = lane % 4, own = warp * 16 + g;
  const BatchCopies<Format> copies(tile, warp * 16);
  const auto own_rows = static_cast<unsigned>(warp * 16 * Format::kPitch);
#pragma unroll
  for (unsigned i = 0; i < Shape::kWeightStages; ++i) {
    const int chunk = begin + static_cast<int>(i);
    if (chunk < end) copies.request(chunk, ring.weights_at(i) + own_rows);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  wait_for_previous();  // all but the weights may be its results
  if (threadIdx.x == 0)
    for (unsigned i = 0; i < Shape::kRowStages && begin + static_cast<int>(i) < end; ++i)
      x.request(begin + static_cast<int>(i), ring.rows_at(i), ring.full + 8 * i);
  const char* const from[2] = {tile.row(own), tile.row(own + 8)};
  float sums[width / 2] = {}, parts[width / 2] = {};
#pragma unroll 1
  for (int chunk = begin; chunk < end; ++chunk, ring.advance()) {
    asm volatile("cp.async.wait_group %0;" ::"n"(Shape::kWeightStages - 1) : "memory");
    __syncwarp();
    ring.wait_full();
    const char* rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      rows[half] = ring.weights() + (own + 8 * half) * Format::kPitch +
                   batch_lead<Format>(from[half] + chunk * Format::kBytes);
    multiply_batch_chunk<Format, width>(rows, ring.rows_at(ring.stage), sums, parts);
    __syncwarp();
    // The last warp requests the activations that take the stage's place: none waits for others.
    if (lane == 0 && ring.release_rows() && chunk + Shape::kRowStages < end)
      x.request(chunk + Shape::kRowStages, ring.rows_at(ring.stage), ring.full + 8 * ring.stage);
    if (chunk + Shape::kWeightStages < end)
      copies.request(chunk + Shape::kWeightStages, ring.weights_at(ring.weight_stage) + own_rows);
    __syncwarp();
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();  // the stages are no longer read
#pragma unroll
  for (int i = 0; i < width / 2; ++i)
    shared_sums[(i / 4 * 8 + 2 * c + i % 2) * kBatchSumPitch + own + i % 4 / 2 * 8] = sums[i];
}

// ---- clusters

__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// A float at an address of this block's shared memory, in another block of the cluster.
__device__ inline float load_from_block(unsigned address, int block) {
  float result;
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %1, %2;\n"
      "ld.shared::cluster.f32 %0, [there];\n}\n"
      : "=f"(result)
      : "r"(address), "r"(block)
      : "memory");
  return result;
}

/// The sum of a cluster's parts, in the order of its blocks.
__device__ inline float sum_of_parts(const float* own, int parts) {
  if (parts == 1) return *own;
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(own));
  float each[kBatchMostParts], sum = 0;
#pragma unroll
  for (int p = 0; p < kBatchMostParts; ++p) each[p] = p < parts ? load_from_block(address, p) : 0;
#pragma unroll
  for (float part : each) sum += part;
  return sum;
}

/// Adds up the parts of a cluster and stores the results; every block has a share of them.
__device__ inline void store_batch(const RowsCall& call, const BatchRows& rows,
                                   const BatchTile& tile, int block, int part, const float* sums) {
  constexpr int kAtOnce = 4;
  const int each = tile.gated ? kBatchWeights / 2 : kBatchWeights;
  const int first_row = block * rows.width;
  const int count = min(call.rows - first_row, rows.width) * each;
  const int stride = kBatchThreads * rows.parts;
#pragma unroll 1
  for (int first = part * kBatchThreads + static_cast<int>(threadIdx.x); first < count;
       first += kAtOnce * stride) {
    float sum[kAtOnce], up[kAtOnce] = {}, residual[kAtOnce], scale[kAtOnce];
    int row[kAtOnce], n[kAtOnce];
    // All loads before what needs them.
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int i = min(first + u * stride, count - 1);
      row[u] = static_cast<int>(static_cast<unsigned>(i) / static_cast<unsigned>(each));
      const int column = i - row[u] * each;
      const int place = tile.gated ? column / 8 * 16 + column % 8 : column;
      n[u] = tile.number(place);
      if (first + u * stride >= count || n[u] >= tile.weight.rows) n[u] = -1;
      const float* const own = sums + row[u] * kBatchSumPitch + place;
      sum[u] = sum_of_parts(own, rows.parts);
      if (tile.gated) up[u] = sum_of_parts(own + 8, rows.parts);
      row[u] += first_row;
      scale[u] = __ldcg(rows.scales + row[u]);
      residual[u] = n[u] >= 0 ? residual_of(call, tile.weight, row[u], n[u]) : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (n[u] >= 0)
        store_product(call, tile.weight, row[u], n[u], sum[u] * scale[u], up[u] * scale[u],
                      residual[u]);
  }
}

/// Blocks: parts of a tile's chunks, then `width` rows of activations, then tiles.
template <class Format, int width>
__global__ void __launch_bounds__(kBatchThreads, batch_blocks(width))
    multiply_batch_rows(const __grid_constant__ RowsCall call,
                        const __grid_constant__ BatchRows rows) {
  using Shape = BatchShape<Format, width>;
  extern __shared__ __align__(128) char stages[];
  __shared__ BatchBarriers barriers;
  static_assert(Shape::kRowStages == 2);
  begin_next();
  const int part = static_cast<int>(blockIdx.x) % rows.parts;
  const int rest = static_cast<int>(blockIdx.x) / rows.parts;
  const int block = rest % rows.blocks;
  const BatchTile tile(call, rest / rows.blocks);
  const int begin = static_cast<int>(int64_t{rows.chunks} * part / rows.parts);
  const int end = static_cast<int>(int64_t{rows.chunks} * (part + 1) / rows.parts);
  const BatchRing<Format, width> ring(stages, barriers);
  if (threadIdx.x == 0) {
    for (unsigned i = 0; i < Shape::kRowStages; ++i) {
      init_barrier(ring.full + 8 * i, 1);
      barriers.done[i] = 0;
    }
    fence_barriers();
  }
  __syncthreads();
  auto* const sums = reinterpret_cast<float*>(stages);
  multiply_batch<Format, width>(tile, {rows, block}, begin, end, ring, sums);
  if (rows.parts > 1)
    sync_cluster();
  else
    __syncthreads();
  store_batch(call, rows, tile, block, part, sums);
  if (rows.parts > 1) sync_cluster();  // others read this block's sums
}

template <class Format>
void launch_batch(std::string_view op, int device, const RowsCall& call, const BatchRows& rows) {
  const auto run = [&]<int width>(void (*kernel)(RowsCall, BatchRows)) {
    using Shape = BatchShape<Format, width>;
    allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Shape::kBytes);
    launch_clusters(Launch{op, device, static_cast<unsigned>(Shape::kBytes), true},
                    static_cast<unsigned>(rows.parts), kernel,
                    dim3(static_cast<unsigned>(call.tiles * rows.blocks * rows.parts)),
                    dim3(kBatchThreads), call, rows);
  };
  if (rows.width == 16)
    run.template operator()<16>(multiply_batch_rows<Format, 16>);
  else if (rows.width == 32)
    run.template operator()<32>(multiply_batch_rows<Format, 32>);
  else if (rows.width == 64)
    run.template operator()<64>(multiply_batch_rows<Format, 64>);
  else
    run.template operator()<128>(multiply_batch_rows<Format, 128>);
}

}  // namespace tensora::cuda
