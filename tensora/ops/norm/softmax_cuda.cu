#include "tensora/ops/norm/softmax.h"
#include "tensora/ops/norm/softmax_rows.cuh"
#include "tensora/ops/reduce/logsumexp_functors.h"

namespace tensora::cuda {
namespace {

using namespace reductions;

constexpr long long kLongestHeld = 16 * 1024;

template <class C>
__device__ C lowest() {
  return -static_cast<C>(__builtin_huge_val());
}

// What turns an element into a result: its line's maximum, and the sum of the exponentials. A
// line with an infinite maximum has no results.
template <class C, bool kQuick>
struct Results {
  C highest, scale;
  bool log;

  __device__ Results(C maximum, C total, bool logarithm) : highest(maximum), log(logarithm) {
    if (!math::isfinite(maximum)) total = maximum - maximum;
    scale = log ? math::log(total) : C(1) / total;
  }
  __device__ C of(C x) const { return of(x, highest, scale, log); }
  __device__ static C of(C x, C highest, C scale, bool log) {
    return log ? (x - highest) - scale : exponential<kQuick>(x - highest) * scale;
  }
};

// Blocks that should fit on a processor together: as many loads as possible in flight.
template <class C, unsigned kGroup>
inline constexpr int kBlocksWanted = kGroup == 1024   ? 1
                                     : sizeof(C) == 8 ? 2
                                     : kGroup == 256  ? 6
                                                      : 3;

template <class C, int kItems, int kPack, unsigned kGroup>
__global__ void __launch_bounds__(kGroup < 256 ? 256 : kGroup, kBlocksWanted<C, kGroup>)
    softmax_rows(const __grid_constant__ RowsOf<2> params, bool log) {
  constexpr unsigned kBlock = kGroup < 256 ? 256 : kGroup;
  constexpr bool kQuick = kPack == 8;
  const unsigned number = blockIdx.x * (kBlock / kGroup) + threadIdx.x / kGroup;
  if (number >= params.count) return;  // a whole group
  const unsigned lane = threadIdx.x % kGroup;
  const int length = static_cast<int>(params.length);
  long long at[2];
  params.rows.offsets(number, at);
  HeldRow<C, kItems, kPack, kGroup> row;
  row.load(params.array[1].data + at[1], params.array[1], lane, length, lowest<C>());
  C highest = lowest<C>();
  row.each([&](int, int, C x) { highest = x > highest ? x : highest; });
  highest = max_across<kGroup>(highest);
  C total = 0;
  if (log) {
    row.each([&](int, int, C x) { total += exponential<kQuick>(x - highest); });
    total = sum_across<kGroup>(total);
    const Results<C, kQuick> results(highest, total, true);
    row.each([&](int, int, C& x) { x = results.of(x); });
  } else {
    row.each([&](int, int, C& x) {
      x = exponential<kQuick>(x - highest);
      total += x;
    });
    total = sum_across<kGroup>(total);
    const C scale = Results<C, kQuick>(highest, total, false).scale;
    row.each([&](int, int, C& x) { x *= scale; });
  }
  row.store(params.array[0].data + at[0], params.array[0], lane, length);
}

// Rows that do not fit into registers: a block reads each of them twice.
template <class C, int kPack>
__global__ void __launch_bounds__(1024)
    softmax_long_rows(const __grid_constant__ RowsOf<2> params, bool log) {
  using Lane = typename LogSumExp<C>::Lane;
  const LogSumExp<C> functor;
  const unsigned number = blockIdx.x;
  long long at[2];
  params.rows.offsets(number, at);
  const char* const in = params.array[1].data + at[1];
  char* const out = params.array[0].data + at[0];
  Lane lane = functor.lane();
  visit_row_dtype<kPack>(params.array[1].dtype, [&]<class T>() {
    for (long long i = threadIdx.x * kPack; i < params.length; i += 1024 * kPack) {
      C x[kPack];
      load_elements<T>(in, params.array[1].step, i, x);
#pragma unroll
      for (int k = 0; k < kPack; ++k) lane = functor.step(lane, x[k]);
    }
  });
  lane = across_group<1024>(lane, [&](Lane a, Lane b) { return functor.merge(a, b); });
  const Results<C, kPack == 8> results(lane.maximum, lane.sum, log);
  visit_row_dtype<kPack>(params.array[1].dtype, [&]<class T>() {
    for (long long i = threadIdx.x * kPack; i < params.length; i += 1024 * kPack) {
      C x[kPack];
      load_elements<T>(in, params.array[1].step, i, x);
#pragma unroll
      for (int k = 0; k < kPack; ++k) x[k] = results.of(x[k]);
      visit_row_dtype<kPack>(params.array[0].dtype, [&]<class R>() {
        store_elements<R>(out, params.array[0].step, i, x);
      });
    }
  });
}

// Columns of which a thread holds its kItems elements.
template <class C, int kItems, int kPack>
__global__ void __launch_bounds__(1024)
    softmax_columns(const __grid_constant__ ColumnsOf<2> params, bool log) {
  char* at[2];
  const bool active = find_columns<kPack>(params, at);
  const RowArray &in = params.outer.array[1], &out = params.outer.array[0];
  const long long length = active ? params.outer.length : 0;
  C x[kItems][kPack], highest[kPack], total[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) highest[i] = lowest<C>();
  visit_row_dtype<kPack>(in.dtype, [&]<class T>() {
#pragma unroll
    for (int n = 0; n < kItems; ++n) {
#pragma unroll
      for (int i = 0; i < kPack; ++i) x[n][i] = lowest<C>();
      const long long line = threadIdx.y + static_cast<long long>(n) * blockDim.y;
      if (line < length) load_elements<T>(at[1] + line * in.step, 0, 0, x[n]);
    }
  });
#pragma unroll
  for (int n = 0; n < kItems; ++n)
#pragma unroll
    for (int i = 0; i < kPack; ++i) highest[i] = x[n][i] > highest[i] ? x[n][i] : highest[i];
  across_parts<kPack>(highest, [](C a, C b) { return a > b ? a : b; });
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    total[i] = 0;
#pragma unroll
    for (int n = 0; n < kItems; ++n) total[i] += exponential<false>(x[n][i] - highest[i]);
  }
  across_parts<kPack>(total, [](C a, C b) { return a + b; });
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const Results<C, false> results(highest[i], total[i], log);
#pragma unroll
    for (int n = 0; n < kItems; ++n) x[n][i] = results.of(x[n][i]);
  }
  visit_row_dtype<kPack>(out.dtype, [&]<class T>() {
#pragma unroll
    for (int n = 0; n < kItems; ++n) {
      const long long line = threadIdx.y + static_cast<long long>(n) * blockDim.y;
      if (line < length) store_elements<T>(at[0] + line * out.step, 0, 0, x[n]);
    }
  });
}

// Long columns are read twice.
template <class C, int kPack>
__global__ void __launch_bounds__(1024)
    softmax_long_columns(const __grid_constant__ ColumnsOf<2> params, bool log) {
  using Lane = typename LogSumExp<C>::Lane;
  const LogSumExp<C> functor;
  char* at[2];
  const bool active = find_columns<kPack>(params, at);
  const RowArray &in = params.outer.array[1], &out = params.outer.array[0];
  const long long length = active ? params.outer.length : 0;
  Lane lanes[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) lanes[i] = functor.lane();
  visit_row_dtype<kPack>(in.dtype, [&]<class T>() {
#pragma unroll 4
    for (long long line = threadIdx.y; line < length; line += blockDim.y) {
      C x[kPack];
      load_elements<T>(at[1] + line * in.step, 0, 0, x);
#pragma unroll
      for (int i = 0; i < kPack; ++i) lanes[i] = functor.step(lanes[i], x[i]);
    }
  });
  across_parts<kPack>(lanes, [&](Lane a, Lane b) { return functor.merge(a, b); });
  C scale[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i)
    scale[i] = Results<C, false>(lanes[i].maximum, lanes[i].sum, log).scale;
  visit_row_dtype<kPack>(in.dtype, [&]<class T>() {
#pragma unroll 2
    for (long long line = threadIdx.y; line < length; line += blockDim.y) {
      C x[kPack];
      load_elements<T>(at[1] + line * in.step, 0, 0, x);
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        x[i] = Results<C, false>::of(x[i], lanes[i].maximum, scale[i], log);
      visit_row_dtype<kPack>(
          out.dtype, [&]<class R>() { store_elements<R>(at[0] + line * out.step, 0, 0, x); });
    }
  });
}

template <class C, int kPack>
void run_rows(const KernelContext& context, const RowsOf<2>& params, bool log) {
  const Launch launch{context.op, context.device.index};
  const auto run = [&](auto* kernel, unsigned group) {
    const unsigned block = std::max(256u, group), per_block = block / group;
    launch(kernel, dim3((params.count + per_block - 1) / per_block), dim3(block), params, log);
  };
  if (params.length <= 8 * 32)
    run(softmax_rows<C, 8, kPack, 32>, 32);
  else if (params.length <= 32 * 32)
    run(softmax_rows<C, 32, kPack, 32>, 32);
  else if (params.length <= 16 * 256)
    run(softmax_rows<C, 16, kPack, 256>, 256);
  else if (params.length <= kLongestHeld)
    run(softmax_rows<C, 16, kPack, 1024>, 1024);
  else
    run(softmax_long_rows<C, kPack>, 1024);
}

template <class C, int kPack>
void run_columns(const KernelContext& context, const ColumnsOf<2>& params, dim3 block, bool log) {
  const Launch launch{context.op, context.device.index};
  const dim3 blocks(params.tiles * params.outer.count);
  if (params.outer.length <= 8 * block.y)
    launch(softmax_columns<C, 8, kPack>, blocks, block, params, log);
  else
    launch(softmax_long_columns<C, kPack>, blocks, block, params, log);
}

template <bool kLog>
void softmax_kernel(const KernelContext& context, const SoftmaxAttrs& attrs) {
  const View &out = context.output(), &in = context.input(0);
  if (out.numel == 0) return;
  const View* const views[2] = {&out, &in};
  const DType dtypes[2] = {out.dtype, in.dtype};
  const Lines<2> lines = make_lines<2>(views, wrap_dim(attrs.dim, out.dim(), context.op));
  const bool wide = out.dtype == DType::float64;
  if (are_columns(lines)) {
    each_columns(lines, dtypes, [&](const ColumnsOf<2>& params, int pack, dim3 block) {
      if (wide)
        run_columns<double, 1>(context, params, block, kLog);
      else if (pack == 4)
        run_columns<float, 4>(context, params, block, kLog);
      else
        run_columns<float, 1>(context, params, block, kLog);
    });
    return;
  }
  each_part(lines, [&](const Lines<2>& part) {
    const RowsOf<2> params = rows_of_lines(part, dtypes);
    const int pack = pack_of(part, dtypes);
    if (wide)
      run_rows<double, 1>(context, params, kLog);
    else if (pack == 8)
      run_rows<float, 8>(context, params, kLog);
    else if (pack == 4)
      run_rows<float, 4>(context, params, kLog);
    else
      run_rows<float, 1>(context, params, kLog);
  });
}

}  // namespace

void register_softmax_cuda() {
  softmax_op.set_kernel(DeviceType::cuda, softmax_kernel<false>);
  log_softmax_op.set_kernel(DeviceType::cuda, softmax_kernel<true>);
}

}  // namespace tensora::cuda
