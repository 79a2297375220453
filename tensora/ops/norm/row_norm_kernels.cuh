#pragma once

// The kernels of layer_norm and rms_norm; with kAdds, of their sums with a residual.

#include "tensora/ops/norm/row_norm_rows.cuh"

namespace tensora::cuda {

struct NormParams {
  RowsOf<4> rows;       // result, sum, input, residual
  long long first_row;  // the number of the first in the whole array
  ParameterArray weight, bias, input_bias;
  Dropping dropping;
  char *mean, *rstd;  // of the compute type; no mean: the root mean square
  double eps;
};
enum : int { kResult, kSum, kInput, kResidual };

// The value as the sum's dtype holds it: what is normalised is what is returned.
template <int kPack, class C>
__device__ inline C rounded(C value, DType dtype) {
  visit_row_dtype<kPack>(dtype, [&]<class T>() { value = load_value<C>(store_value<T>(value)); });
  return value;
}

template <int kPack, class C>
__device__ inline void add_pack(const NormParams& params, unsigned row, long long position,
                                const C (&residual)[kPack], C (&x)[kPack]) {
  if (params.input_bias.data) {
    C bias[kPack];
    params.input_bias.load(position, bias);
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] += bias[i];
  }
  if (params.dropping.active) {
    const long long start = (params.first_row + row) * params.rows.length + position;
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] *= static_cast<C>(params.dropping.factor_of(start + i));
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i)
    x[i] = rounded<kPack>(x[i] + residual[i], params.rows.array[kSum].dtype);
}

template <int kPack, class C>
__device__ inline void scale_pack(const NormParams& params, long long position, C mean, C rstd,
                                  C (&x)[kPack]) {
  C weight[kPack], bias[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) weight[i] = 1, bias[i] = 0;
  if (params.weight.data) params.weight.load(position, weight);
  if (params.bias.data) params.bias.load(position, bias);
#pragma unroll
  for (int i = 0; i < kPack; ++i) x[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
}

// One thread of a row's group writes its statistics; all get them.
template <class C>
__device__ inline C finish_statistics(const NormParams& params, unsigned row, bool writes, C mean,
                                      C mean_square) {
  const C rstd = C(1) / math::sqrt(mean_square + static_cast<C>(params.eps));
  if (writes) {
    if (params.mean) reinterpret_cast<C*>(params.mean)[row] = mean;
    reinterpret_cast<C*>(params.rstd)[row] = rstd;
  }
  return rstd;
}

// Whether a row stays in registers as it lies in memory, and is converted in every pass: elements
// of 16 bits take half the registers, and twice as many loads are in flight.
template <bool kAdds, int kPack>
inline constexpr bool kStaysRaw = kPack == 8 && !kAdds;

// Threads of a block whose rows are held by kGroup threads each.
template <unsigned kGroup>
inline constexpr unsigned kBlockOf = kGroup == kWarpThreads ? 256 : kGroup;

// Blocks that should fit on a processor together: as many loads as possible in flight.
template <bool kAdds, class C, int kItems, unsigned kGroup>
inline constexpr int kNormBlocks = kGroup == 1024   ? 1
                                   : kGroup == 128  ? 9
                                   : sizeof(C) == 8 ? 2
                                   : kItems == 32   ? (kAdds ? 2 : 3)
                                   : kAdds          ? 3
                                                    : 5;

// The mean of a row of `count` elements, 0 unless `centred`, and the mean square of the elements'
// distances from it. each_pack(body) calls body(position, x) for the packs that the thread holds.
template <class C, int kPack, unsigned kGroup, class EachPack>
__device__ inline PairOf<C> row_statistics(bool centred, C count, const EachPack& each_pack) {
  if (!centred) {
    C squares = 0;
    each_pack([&](int, C(&x)[kPack]) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) squares += x[i] * x[i];
    });
    return {C(0), sum_across<kGroup>(squares) / count};
  }
  C total = 0;
  each_pack([&](int, C(&x)[kPack]) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) total += x[i];
  });
  const C mean = sum_across<kGroup>(total) / count;
  // What the rounded mean lacks is made up for.
  C distance = 0, squares = 0;
  each_pack([&](int, C(&x)[kPack]) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const C d = x[i] - mean;
      distance += d;
      squares += d * d;
    }
  });
  const PairOf<C> sums = sums_across<kGroup>(distance, squares);
  const C error = sums.first / count, square = sums.second / count - error * error;
  return {mean + error, square < 0 ? C(0) : square};
}

template <bool kAdds, class C, int kItems, int kPack, unsigned kGroup>
__global__ void __launch_bounds__(kBlockOf<kGroup>, kNormBlocks<kAdds, C, kItems, kGroup>)
    norm_rows(const __grid_constant__ NormParams params) {
  using Row = HeldRow<C, kItems, kPack, kGroup>;
  const unsigned number = blockIdx.x * (kBlockOf<kGroup> / kGroup) + threadIdx.x / kGroup;
  if (number >= params.rows.count) return;  // a whole group
  const unsigned lane = threadIdx.x % kGroup;
  const int length = static_cast<int>(params.rows.length);
  const RowArray(&array)[4] = params.rows.array;
  long long at[4];
  params.rows.rows.offsets(number, at);
  Row row;
  const RowArray &input = array[kInput], &other = array[kResidual];
  RawRow<Row> raw, raw_other;
  if constexpr (kPack == 1) {  // whose raw groups would be mostly empty
    row.load(input.data + at[kInput], input, lane, length, C(0));
  } else {
    raw.fetch_row(input.data + at[kInput], input, lane, length);
    if constexpr (kAdds) raw_other.fetch_row(other.data + at[kResidual], other, lane, length);
    if constexpr (!kStaysRaw<kAdds, kPack>) raw.convert_row(input, lane, length, row);
  }
  if constexpr (kAdds) {
    Row residual;
    if constexpr (kPack == 1)
      residual.load(other.data + at[kResidual], other, lane, length, C(0));
    else
      raw_other.convert_row(other, lane, length, residual);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p)
      if (Row::position(p, lane) < length)
        add_pack(params, number, Row::position(p, lane), residual.values[p], row.values[p]);
    row.store(array[kSum].data + at[kSum], array[kSum], lane, length);
  }
  // body(position, x) for each pack of the row.
  const auto each_pack = [&](auto body) {
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      if (Row::position(p, lane) >= length) continue;
      C x[kPack];
      if constexpr (kStaysRaw<kAdds, kPack>) {
        raw.convert(input, p, x);
      } else {
#pragma unroll
        for (int i = 0; i < kPack; ++i) x[i] = row.values[p][i];
      }
      body(Row::position(p, lane), x);
    }
  };
  const PairOf<C> statistics =
      row_statistics<C, kPack, kGroup>(params.mean != nullptr, static_cast<C>(length), each_pack);
  const C mean = statistics.first;
  const C rstd = finish_statistics(params, number, lane == 0, mean, statistics.second);
  const RowArray& result = array[kResult];
  each_pack([&](int position, C(&x)[kPack]) {
    scale_pack(params, position, mean, rstd, x);
    visit_row_dtype<kPack>(result.dtype, [&]<class T>() {
      store_elements<T>(result.data + at[kResult], result.step, position, x);
    });
  });
}

// Rows that do not fit into registers: a block passes over each of them several times; what a
// thread reads again is what it read or wrote before.
template <bool kAdds, class C, int kPack>
__global__ void __launch_bounds__(1024) norm_long_rows(const __grid_constant__ NormParams params) {
  constexpr unsigned kGroup = 1024;
  const RowArray(&array)[4] = params.rows.array;
  const long long length = params.rows.length;
  long long at[4];
  params.rows.rows.offsets(blockIdx.x, at);
  const RowArray& source = array[kAdds ? kSum : kInput];
  char* const in = source.data + at[kAdds ? kSum : kInput];
  const auto each_pack = [&](auto body) {
    for (long long i = threadIdx.x * kPack; i < length; i += kGroup * kPack) body(i);
  };
  const auto read = [&](const RowArray& from, const char* row, long long i, C(&x)[kPack]) {
    visit_row_dtype<kPack>(from.dtype, [&]<class T>() { load_elements<T>(row, from.step, i, x); });
  };
  if constexpr (kAdds)
    each_pack([&](long long i) {
      C x[kPack], residual[kPack];
      read(array[kInput], array[kInput].data + at[kInput], i, x);
      read(array[kResidual], array[kResidual].data + at[kResidual], i, residual);
      add_pack(params, blockIdx.x, i, residual, x);
      visit_row_dtype<kPack>(source.dtype,
                             [&]<class T>() { store_elements<T>(in, source.step, i, x); });
    });
  const C count = static_cast<C>(length);
  C mean = 0, total = 0, distance = 0, squares = 0;
  if (params.mean) {
    each_pack([&](long long i) {
      C x[kPack];
      read(source, in, i, x);
#pragma unroll
      for (int k = 0; k < kPack; ++k) total += x[k];
    });
    mean = sum_across<kGroup>(total) / count;
  }
  each_pack([&](long long i) {
    C x[kPack];
    read(source, in, i, x);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      distance += x[k] - mean;
      squares += (x[k] - mean) * (x[k] - mean);
    }
  });
  const PairOf<C> sums = sums_across<kGroup>(distance, squares);
  C square = sums.second / count;
  if (params.mean) {
    const C error = sums.first / count;
    mean += error;
    square = square < error * error ? C(0) : square - error * error;
  }
  const C rstd = finish_statistics(params, blockIdx.x, threadIdx.x == 0, mean, square);
  each_pack([&](long long i) {
    C x[kPack];
    read(source, in, i, x);
    scale_pack(params, i, mean, rstd, x);
    visit_row_dtype<kPack>(array[kResult].dtype, [&]<class T>() {
      store_elements<T>(array[kResult].data + at[kResult], array[kResult].step, i, x);
    });
  });
}

template <bool kAdds, class C, int kPack>
void run_rows(const KernelContext& context, const NormParams& params) {
  const Launch launch{context.op, context.device.index};
  const auto run = [&]<class V, int kItems, unsigned kGroup>() {
    constexpr unsigned kPerBlock = kBlockOf<kGroup> / kGroup;
    launch(norm_rows<kAdds, V, kItems, kPack, kGroup>,
           dim3((params.rows.count + kPerBlock - 1) / kPerBlock), dim3(kBlockOf<kGroup>), params);
  };
  // Half as many threads can hold a row that stays raw.
  constexpr unsigned kHolders = kStaysRaw<kAdds, kPack> ? 128 : 256;
  constexpr int kShort = 8 * 256 / kHolders, kLong = 16 * 256 / kHolders;
  const long long length = params.rows.length;
  if (length <= 8 * 32)
    run.template operator()<C, 8, 32>();
  else if (length <= 32 * 32 && sizeof(C) == 4)  // a warp has no other to wait for
    run.template operator()<float, 32, 32>();
  else if (length <= 8 * 256)
    run.template operator()<C, kShort, kHolders>();
  else if (length <= 16 * 256 && sizeof(C) == 4)  // more doubles would be spilled
    run.template operator()<float, kLong, kHolders>();
  else if (length <= 16 * 1024 && sizeof(C) == 4)
    run.template operator()<float, 16, 1024>();
  else
    launch(norm_long_rows<kAdds, C, kPack>, dim3(params.rows.count), dim3(1024), params);
}

struct NormJob {
  const View *x, *residual, *weight, *bias, *input_bias;  // null: none
  const View *y, *sum, *mean, *rstd;
  double eps;
  Dropping dropping;
};

/// Runs on `job`, whose rows are the last dims.
template <bool kAdds>
void run_norm(const KernelContext& context, const NormJob& job, const Shape& normalized_shape) {
  const int row_dims = normalized_shape.size();
  if (job.rstd->numel == 0) return;
  const RowsInput x(context, job.x, row_dims), residual(context, job.residual, row_dims);
  const ParameterInput weight(context, job.weight), bias(context, job.bias),
      input_bias(context, job.input_bias);
  const View y = *with_rows(*job.y, row_dims),
             sum = *with_rows(kAdds ? *job.sum : *job.y, row_dims);
  const View* const views[4] = {&y, &sum, &x.view(), kAdds ? &residual.view() : &x.view()};
  const DType dtypes[4] = {y.dtype, sum.dtype, job.x->dtype, views[3]->dtype};
  const Lines<4> lines = make_lines<4>(views, y.dim() - 1);
  const bool packs = weight.takes_packs() && bias.takes_packs() && input_bias.takes_packs();
  const int pack = packs ? pack_of(lines, dtypes) : 1;
  NormParams params{};
  params.weight = weight.array();
  params.bias = bias.array();
  params.input_bias = input_bias.array();
  params.dropping = job.dropping;
  params.eps = job.eps;
  const auto bytes = static_cast<int64_t>(element_size(job.rstd->dtype));
  each_part(lines, [&](const Lines<4>& part) {
    params.rows = rows_of_lines(part, dtypes);
    params.mean = job.mean ? job.mean->as<char>() + params.first_row * bytes : nullptr;
    params.rstd = job.rstd->as<char>() + params.first_row * bytes;
    if (sum.dtype == DType::float64)
      run_rows<kAdds, double, 1>(context, params);
    else if (pack == 8)
      run_rows<kAdds, float, 8>(context, params);
    else if (pack == 4)
      run_rows<kAdds, float, 4>(context, params);
    else
      run_rows<kAdds, float, 1>(context, params);
    params.first_row += part.count;
  });
}

}  // namespace tensora::cuda
