#pragma once

// The gradients of rows that lie in packs.

#include "tensora/ops/norm/norm_backward_rows.cuh"

// Note [Rows ahead]
// A row's gradients wait for its sums, and those for the whole row and for all threads. Memory must
// not rest meanwhile, so the rows that a block will take next are already on their way to shared
// memory. A thread requests what it will read itself, and waits for no other thread. Nothing within
// the loop is loaded in another way: a load would return only after the rows requested before it.
// So the weight is read once, before, and a row's statistics are requested along with it.

namespace tensora::cuda {

/// Requests 4, 8 or 16 bytes from global memory; `to` is an address in shared memory.
template <int bytes>
__device__ inline void request(unsigned to, const char* from) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  if constexpr (bytes == 16)  // past the first-level cache
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes)
                 : "memory");
}
/// Ends a batch of requests.
__device__ inline void end_requests() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until all batches of this thread but the last `pending` are there.
template <int pending>
__device__ inline void wait_for_requests() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// How a block of the kernel is made: threads, what it has in shared memory, and how many should
/// fit on a processor.
template <bool kFused, int kPack, int kItems, unsigned kGroup>
struct AheadShape {
  using Row = HeldRow<float, kItems, kPack, kGroup>;
  static constexpr unsigned kBlock = kGroup == kWarpThreads ? 256 : kGroup;
  static constexpr unsigned kGroups = kBlock / kGroup;
  static constexpr unsigned kBlocks = (kItems == 8 ? 768 : 512) / kBlock;
  static constexpr int kArrays = kFused ? 3 : 2;
  // A row takes a slot of 16 bytes per pack and thread, and two statistics per warp.
  static constexpr unsigned kPackBytes = kBlock * 16;
  static constexpr unsigned kRowBytes =
      kArrays * Row::kPacks * kPackBytes + kBlock / kWarpThreads * 2 * sizeof(float);
  static constexpr unsigned kMost = 98 * 1024;  // what every device since 8.0 has for a block
  static constexpr int kRows = 2 * kRowBytes <= kMost ? 2 : 1;
  static constexpr unsigned kShared = kRows * kRowBytes;
  static_assert(kShared <= kMost);
};

/// The ring of rows on their way, as one thread sees it.
template <class Shape>
struct RowsAhead {
  using Row = typename Shape::Row;
  const GradientParams& params;
  char* const ring;
  const unsigned lane;

  /// Array k, counted from kGrad on, of the ring's row `stage`: this thread's pack p.
  __device__ char* slot(int stage, int k, int p) const {
    return ring + static_cast<unsigned>(stage) * Shape::kRowBytes +
           static_cast<unsigned>((k - kGrad) * Row::kPacks + p) * Shape::kPackBytes +
           threadIdx.x * 16;
  }
  /// The statistics of the ring's row `stage`, which the threads of a warp share.
  __device__ float* statistics_slot(int stage) const {
    char* const all = ring + static_cast<unsigned>(stage + 1) * Shape::kRowBytes -
                      Shape::kBlock / kWarpThreads * 2 * sizeof(float);
    return reinterpret_cast<float*>(all) + threadIdx.x / kWarpThreads * 2;
  }
  __device__ static unsigned shared_address(const void* slot) {
    return static_cast<unsigned>(__cvta_generic_to_shared(slot));
  }

  __device__ bool holds(int p) const {
    return Row::position(p, lane) < static_cast<int>(params.rows.length);
  }

  /// What is never requested stays 0: packs beyond the row's end, and the mean if there is none.
  __device__ void clear() const {
    for (int stage = 0; stage < Shape::kRows; ++stage) {
      for (int k = kGrad; k < kGrad + Shape::kArrays; ++k)
        for (int p = 0; p < Row::kPacks; ++p)
          if (!holds(p)) *reinterpret_cast<uint4*>(slot(stage, k, p)) = uint4{};
      if (!params.mean) statistics_slot(stage)[0] = 0;
    }
  }
  __device__ void request_array(unsigned row, int stage, int k) const {
    if (row >= params.rows.count) return;
    const RowArray& array = params.rows.array[k];
    long long at[5];
    params.rows.rows.offsets(row, at);
    const char* const from = array.data + at[k];
    const bool wide = array.dtype == DType::float32;
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      if (!holds(p)) continue;
      const int position = Row::position(p, lane);
      const unsigned to = shared_address(slot(stage, k, p));
      if constexpr (Row::kPack == 8)
        request<16>(to, from + position * 2);
      else
        wide ? request<16>(to, from + position * 4) : request<8>(to, from + position * 2);
    }
  }
  __device__ void request_statistics(unsigned row, int stage) const {
    const unsigned which = threadIdx.x % kWarpThreads;
    const char* const from = which == 0 ? params.mean : params.rstd;
    if (which < 2 && from && row < params.rows.count)
      request<4>(shared_address(statistics_slot(stage) + which), from + size_t{row} * 4);
  }
  __device__ RawRow<Row> row(int stage, int k) const {
    RawRow<Row> raw;
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) fetch<16>(slot(stage, k, p), raw.packs[p]);
    return raw;
  }
};

/// The elements of a whole row, beyond its end too.
template <class Row>
__device__ inline void convert_all(const RawRow<Row>& raw, const RowArray& array, Row& to) {
  visit_row_dtype<Row::kPack>(array.dtype, [&]<class T>() {
    to.each([&](int p, int i, float& value) {
      value = load_value<float>(element_of<T>(raw.packs[p], i));
    });
  });
}

/// `x` becomes its normalised values and `grad` is multiplied by the weight; the row's part of the
/// sums over rows is added to them, and its own two sums are returned.
template <class Shape, class Row>
__device__ inline PairOf<float> sums_of_row(const RowsAhead<Shape>& ahead,
                                            const RowStatistics<float>& statistics,
                                            const Row& weight, Row& grad, Row& x, Row& of_weight,
                                            Row& of_bias) {
  float plain = 0, along = 0;
#pragma unroll
  for (int p = 0; p < Row::kPacks; ++p) {
    // Beyond the end values are 0, however far from 0 the mean is.
    const RowStatistics<float> of_pack{statistics.mean, ahead.holds(p) ? statistics.rstd : 0};
#pragma unroll
    for (int i = 0; i < Row::kPack; ++i) {
      float &g = grad.values[p][i], &value = x.values[p][i];
      value = of_pack.value(value);
      of_weight.values[p][i] += g * value;
      of_bias.values[p][i] += g;
      g *= weight.values[p][i];
      plain += g;
      along += g * value;
    }
  }
  return sums_across<Row::kGroup>(plain, along);
}

// kFused: a gradient is added, or that of the input is apart.
template <bool kFused, int kPack, int kItems, unsigned kGroup>
__global__ void __launch_bounds__(AheadShape<kFused, kPack, kItems, kGroup>::kBlock,
                                  AheadShape<kFused, kPack, kItems, kGroup>::kBlocks)
    gradient_rows_ahead(const __grid_constant__ GradientParams params) {
  using Shape = AheadShape<kFused, kPack, kItems, kGroup>;
  using Row = typename Shape::Row;
  extern __shared__ __align__(16) char ring[];
  const RowArray(&array)[5] = params.rows.array;
  const unsigned lane = threadIdx.x % kGroup, step = gridDim.x * Shape::kGroups;
  const RowsAhead<Shape> ahead{params, ring, lane};
  unsigned row = blockIdx.x * Shape::kGroups + threadIdx.x / kGroup;
  ahead.clear();
#pragma unroll
  for (int stage = 0; stage < Shape::kRows; ++stage) {
    for (int k = kGrad; k < kGrad + Shape::kArrays; ++k)
      if (k != kOfSum || params.adds) ahead.request_array(row + stage * step, stage, k);
    ahead.request_statistics(row + stage * step, stage);
    end_requests();
  }
  Row weight, of_weight, of_bias;
  weight.each([](int, int, float& value) { value = 0; });
  of_weight.each([](int, int, float& sum) { sum = 0; });
  of_bias.each([](int, int, float& sum) { sum = 0; });
#pragma unroll
  for (int p = 0; p < Row::kPacks; ++p)
    if (ahead.holds(p)) load_weight(params, Row::position(p, lane), weight.values[p]);
  for (int stage = 0; row < params.rows.count; row += step) {
    wait_for_requests<Shape::kRows - 1>();
    __syncwarp();  // statistics came to the first lanes
    const RowStatistics<float> statistics{ahead.statistics_slot(stage)[0],
                                          ahead.statistics_slot(stage)[1]};
    const RawRow<Row> raw_grad = ahead.row(stage, kGrad), raw_x = ahead.row(stage, kX);
    __syncwarp();  // all have read them
    const unsigned later = row + Shape::kRows * step;
    ahead.request_array(later, stage, kGrad);
    ahead.request_array(later, stage, kX);
    ahead.request_statistics(later, stage);
    Row grad, x;
    convert_all(raw_grad, array[kGrad], grad);
    convert_all(raw_x, array[kX], x);
    const Common<float> common(params,
                               sums_of_row(ahead, statistics, weight, grad, x, of_weight, of_bias));
    grad.each([&](int p, int i, float& value) {
      value = common.of_x(statistics, value, x.values[p][i]);
    });
    if (kFused && params.adds) {
      convert_all(ahead.row(stage, kOfSum), array[kOfSum], x);
      grad.each([&](int p, int i, float& value) { value += x.values[p][i]; });
      ahead.request_array(later, stage, kOfSum);
    }
    end_requests();
    store_row_of<kFused>(params, row, lane, grad);
    stage = stage + 1 == Shape::kRows ? 0 : stage + 1;
  }
  if (!params.partial) return;
  leave_sums<Row, Shape::kGroups>(params, of_weight, 0, lane);
  leave_sums<Row, Shape::kGroups>(params, of_bias, 1, lane);
}

}  // namespace tensora::cuda
