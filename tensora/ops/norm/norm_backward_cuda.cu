#include "tensora/ops/norm/row_norm_rows.cuh"

// Note [Sums over rows without atomics]
// The gradients of weight and bias are sums over all rows. A block takes row after row and keeps
// the sums of its threads' columns in registers, so that one pass over memory gives all three
// gradients. It leaves its sums in scratch memory, and a second kernel adds those of all blocks up
// in a fixed order. Which block takes which rows follows from the shape and the device alone.

namespace tensora::cuda {
namespace {

struct GradientParams {
  RowsOf<5> rows;    // gradient of x, of the dropped input, of the result; x; gradient of the sum
  bool apart, adds;  // the input has a gradient of its own; that of the sum is added
  long long first_row;
  ParameterArray weight;
  const char *mean, *rstd;  // of the compute type; no mean: the root mean square
  Dropping dropping;
  char* partial;  // blocks x (weight, bias) x length, of the compute type; or null
};
enum : int { kOfX, kOfInput, kGrad, kX, kOfSum };

template <class C>
struct RowStatistics {
  C mean, rstd;
  __device__ RowStatistics(const GradientParams& params, unsigned row)
      : mean(params.mean ? reinterpret_cast<const C*>(params.mean)[row] : C(0)),
        rstd(reinterpret_cast<const C*>(params.rstd)[row]) {}
  __device__ C value(C x) const { return (x - mean) * rstd; }
};

template <int kPack, class C>
__device__ inline void load_weight(const GradientParams& params, long long position,
                                   C (&weight)[kPack]) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) weight[i] = 1;
  if (params.weight.data) params.weight.load(position, weight);
}

// What a row's gradients have in common: rstd * (g w - constant - slope * value).
template <class C>
struct Common {
  C constant, slope;
  __device__ Common(const GradientParams& params, PairOf<C> sums)
      : constant(params.mean ? sums.first / static_cast<C>(params.rows.length) : C(0)),
        slope(sums.second / static_cast<C>(params.rows.length)) {}
};

/// The results of a pack of row `row`: `grad` becomes the gradient of x, and then, where that is
/// another, that of the input.
template <bool kFused, int kPack, class C>
__device__ inline void store_pack_of(const GradientParams& params, const long long (&at)[5],
                                     unsigned row, long long position, C (&grad)[kPack]) {
  const RowArray(&array)[5] = params.rows.array;
  const auto store_to = [&](int k) {
    visit_row_dtype<kPack>(array[k].dtype, [&]<class T>() {
      store_elements<T>(array[k].data + at[k], array[k].step, position, grad);
    });
  };
  store_to(kOfX);
  if (!kFused || !params.apart) return;
  const long long start = (params.first_row + row) * params.rows.length + position;
  if (params.dropping.active) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) grad[i] *= static_cast<C>(params.dropping.factor_of(start + i));
  }
  store_to(kOfInput);
}

// The sums of a block's groups, which hold the same columns, added up and left for the second
// kernel.
template <class Row, unsigned kGroups>
__device__ inline void leave_sums(const GradientParams& params, const Row& sum, int which,
                                  unsigned lane) {
  using C = typename Row::Value;
  const long long length = params.rows.length;
  C* const to = reinterpret_cast<C*>(params.partial) + (size_t{blockIdx.x} * 2 + which) * length;
  if constexpr (kGroups == 1) {
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p)
#pragma unroll
      for (int i = 0; i < Row::kPack; ++i)
        if (Row::position(p, lane) < length) to[Row::position(p, lane) + i] = sum.values[p][i];
  } else {
    __shared__ C shared[kGroups][Row::kCapacity];
    __syncthreads();  // the other sums may still be read
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p)
#pragma unroll
      for (int i = 0; i < Row::kPack; ++i)
        shared[threadIdx.x / Row::kGroup][Row::position(p, lane) + i] = sum.values[p][i];
    __syncthreads();
    for (int column = static_cast<int>(threadIdx.x); column < length;
         column += kGroups * Row::kGroup) {
      C total = 0;
#pragma unroll
      for (unsigned group = 0; group < kGroups; ++group) total += shared[group][column];
      to[column] = total;
    }
  }
}

template <class Row>
__device__ inline void fetch_array(const GradientParams& params, const long long (&at)[5], int k,
                                   unsigned lane, RawRow<Row>& to) {
  const RowArray& array = params.rows.array[k];
  to.fetch_row(array.data + at[k], array, lane, static_cast<int>(params.rows.length));
}

/// Blocks that a processor has at a time: with registers for a row and the next one.
constexpr unsigned blocks_together(unsigned group) {
  return group == 32 ? 3 : group < 512 ? 768 / group : 1;
}

// kFused: a gradient is added, or that of the input is apart. The next row is fetched before the
// sums of this one are exchanged, if there are registers for it.
template <bool kFused, class C, int kPack, unsigned kGroup>
__global__ void __launch_bounds__(kGroup == 32 ? 256 : kGroup, blocks_together(kGroup))
    gradient_rows(const __grid_constant__ GradientParams params) {
  constexpr int kItems = 8;
  constexpr bool kAhead = kGroup < 1024 && kPack > 1;
  constexpr unsigned kBlock = kGroup == 32 ? 256 : kGroup, kGroups = kBlock / kGroup;
  using Row = HeldRow<C, kItems, kPack, kGroup>;
  static_assert(kGroup == kWarpThreads || kGroups == 1);
  const RowArray(&array)[5] = params.rows.array;
  const unsigned lane = threadIdx.x % kGroup;
  const int length = static_cast<int>(params.rows.length);
  Row of_weight, of_bias;
  of_weight.each([](int, int, C& sum) { sum = 0; });
  of_bias.each([](int, int, C& sum) { sum = 0; });
  RawRow<Row> raw_grad, raw_x, raw_sum;
  const auto fetch_all = [&](unsigned row) {
    if (row >= params.rows.count) return;
    long long at[5];
    params.rows.rows.offsets(row, at);
    fetch_array(params, at, kGrad, lane, raw_grad);
    fetch_array(params, at, kX, lane, raw_x);
    if (kFused && params.adds) fetch_array(params, at, kOfSum, lane, raw_sum);
  };
  unsigned row = blockIdx.x * kGroups + threadIdx.x / kGroup;
  if constexpr (kAhead) fetch_all(row);
  for (; row < params.rows.count; row += gridDim.x * kGroups) {
    if constexpr (!kAhead) fetch_all(row);
    Row grad, x;
    raw_grad.convert_row(array[kGrad], lane, length, grad);
    raw_x.convert_row(array[kX], lane, length, x);
    const RawRow<Row> of_sum = raw_sum;
    if constexpr (kAhead) fetch_all(row + gridDim.x * kGroups);
    const RowStatistics<C> statistics(params, row);
    C plain = 0, along = 0;
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      C weight[kPack];
      if (Row::position(p, lane) >= length) continue;
      load_weight(params, Row::position(p, lane), weight);
#pragma unroll
      for (int i = 0; i < kPack; ++i) {
        C &g = grad.values[p][i], &value = x.values[p][i];
        value = statistics.value(value);
        of_weight.values[p][i] += g * value;
        of_bias.values[p][i] += g;
        g *= weight[i];
        plain += g;
        along += g * value;
      }
    }
    const Common<C> common(params, sums_across<kGroup>(plain, along));
    long long at[5];
    params.rows.rows.offsets(row, at);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      if (Row::position(p, lane) >= length) continue;
      C added[kPack] = {};
      if (kFused && params.adds) of_sum.convert(array[kOfSum], p, added);
#pragma unroll
      for (int i = 0; i < kPack; ++i)
        grad.values[p][i] = statistics.rstd * (grad.values[p][i] - common.constant -
                                               common.slope * x.values[p][i]) +
                            added[i];
      store_pack_of<kFused>(params, at, row, Row::position(p, lane), grad.values[p]);
    }
  }
  if (!params.partial) return;
  leave_sums<Row, kGroups>(params, of_weight, 0, lane);
  leave_sums<Row, kGroups>(params, of_bias, 1, lane);
}

// Rows that do not fit into registers, one per block; their sums over rows are left to
// columns_of_gradients.
template <class C, int kPack>
__global__ void __launch_bounds__(1024)
    gradient_long_rows(const __grid_constant__ GradientParams params) {
  constexpr unsigned kGroup = 1024;
  const RowArray(&array)[5] = params.rows.array;
  const unsigned row = blockIdx.x;
  long long at[5];
  params.rows.rows.offsets(row, at);
  const RowStatistics<C> statistics(params, row);
  const auto each_pack = [&](auto body) {
    for (long long i = threadIdx.x * kPack; i < params.rows.length; i += kGroup * kPack) {
      C grad[kPack], x[kPack], weight[kPack];
      visit_row_dtype<kPack>(array[kGrad].dtype, [&]<class T>() {
        load_elements<T>(array[kGrad].data + at[kGrad], array[kGrad].step, i, grad);
      });
      visit_row_dtype<kPack>(array[kX].dtype, [&]<class T>() {
        load_elements<T>(array[kX].data + at[kX], array[kX].step, i, x);
      });
      load_weight(params, i, weight);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        grad[k] *= weight[k];
        x[k] = statistics.value(x[k]);
      }
      body(i, grad, x);
    }
  };
  C plain = 0, along = 0;
  each_pack([&](long long, C(&grad)[kPack], C(&value)[kPack]) {
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      plain += grad[k];
      along += grad[k] * value[k];
    }
  });
  const Common<C> common(params, sums_across<kGroup>(plain, along));
  each_pack([&](long long i, C(&grad)[kPack], C(&value)[kPack]) {
#pragma unroll
    for (int k = 0; k < kPack; ++k)
      grad[k] = statistics.rstd * (grad[k] - common.constant - common.slope * value[k]);
    if (params.adds) {
      C other[kPack];
      visit_row_dtype<kPack>(array[kOfSum].dtype, [&]<class T>() {
        load_elements<T>(array[kOfSum].data + at[kOfSum], array[kOfSum].step, i, other);
      });
#pragma unroll
      for (int k = 0; k < kPack; ++k) grad[k] += other[k];
    }
    store_pack_of<true>(params, at, row, i, grad);
  });
}

// A thread per column; blockIdx.y counts parts of the rows.
template <class C>
__global__ void __launch_bounds__(256)
    columns_of_gradients(const __grid_constant__ GradientParams params, unsigned rows_per_part) {
  const RowArray(&array)[5] = params.rows.array;
  const long long column = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (column >= params.rows.length) return;
  const unsigned first = blockIdx.y * rows_per_part;
  const unsigned last = min(params.rows.count, first + rows_per_part);
  C of_weight = 0, of_bias = 0;
#pragma unroll 4
  for (unsigned row = first; row < last; ++row) {
    long long at[5];
    params.rows.rows.offsets(row, at);
    C grad[1], x[1];
    visit_row_dtype<1>(array[kGrad].dtype, [&]<class T>() {
      load_elements<T>(array[kGrad].data + at[kGrad], array[kGrad].step, column, grad);
    });
    visit_row_dtype<1>(array[kX].dtype, [&]<class T>() {
      load_elements<T>(array[kX].data + at[kX], array[kX].step, column, x);
    });
    of_weight += grad[0] * RowStatistics<C>(params, row).value(x[0]);
    of_bias += grad[0];
  }
  C* const to = reinterpret_cast<C*>(params.partial) + size_t{blockIdx.y} * 2 * params.rows.length;
  to[column] = of_weight;
  to[params.rows.length + column] = of_bias;
}

/// Adds the blocks' sums up; blockIdx.y: for the weight, or for the bias.
template <class C>
__global__ void __launch_bounds__(1024) add_up(const C* partial, unsigned parts, long long length,
                                               RowArray of_weight, RowArray of_bias) {
  constexpr unsigned kColumns = 32, kRows = 32;
  __shared__ C shared[kRows][kColumns + 1];
  const RowArray& to = blockIdx.y == 0 ? of_weight : of_bias;
  if (!to.data) return;  // the whole block
  const long long column = static_cast<long long>(blockIdx.x) * kColumns + threadIdx.x;
  C total = 0;
  if (column < length)
    for (unsigned part = threadIdx.y; part < parts; part += kRows)
      total += partial[(size_t{part} * 2 + blockIdx.y) * length + column];
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  // Now a warp has the partial sums of one column.
  const C sum =
      across_group<kWarpThreads>(shared[threadIdx.x][threadIdx.y], [](C a, C b) { return a + b; });
  const long long mine = static_cast<long long>(blockIdx.x) * kColumns + threadIdx.y;
  if (threadIdx.x == 0 && mine < length) store_any<C>(to.data + mine * to.step, to.dtype, sum);
}

RowArray parameter_array(const View* view) {
  if (!view) return {};
  return {view->as<char>(), static_cast<long long>(element_size(view->dtype)), view->dtype};
}

constexpr long long kLongestHeld = 8 * 1024;

template <bool kFused, class C, int kPack>
void run_gradient(const KernelContext& context, GradientParams params, const View* of_weight,
                  const View* of_bias) {
  const Launch launch{context.op, context.device.index};
  const long long length = params.rows.length;
  const unsigned rows = params.rows.count;
  const auto processors = static_cast<unsigned>(device_info(context.device.index).multiprocessors);
  const bool sums = of_weight || of_bias, held = length <= kLongestHeld;
  const unsigned group = length <= 8 * 32    ? 32
                         : length <= 8 * 128 ? 128
                         : length <= 8 * 256 ? 256
                         : length <= 8 * 512 ? 512
                                             : 1024;
  const unsigned block = group == 32 ? 256 : group, groups = block / group;
  unsigned parts = std::min((rows + groups - 1) / groups, processors * blocks_together(group));
  unsigned rows_per_part = 0;
  if (!held) {
    rows_per_part = std::max(32u, (rows + 127) / 128);
    parts = (rows + rows_per_part - 1) / rows_per_part;
  }
  std::optional<Scratch> scratch;
  if (sums) {
    scratch.emplace(
        context.device.index,
        std::max<size_t>(1, size_t{parts} * 2 * static_cast<size_t>(length) * sizeof(C)));
    params.partial = scratch->data();
  }
  const auto run = [&](auto* kernel) { launch(kernel, dim3(parts), dim3(block), params); };
  if (rows == 0) {
    // The gradients of weight and bias are sums of nothing.
  } else if (!held) {
    launch(gradient_long_rows<C, kPack>, dim3(rows), dim3(1024), params);
    if (sums)
      launch(columns_of_gradients<C>, dim3(static_cast<unsigned>((length + 255) / 256), parts),
             dim3(256), params, rows_per_part);
  } else if (group == 32) {
    run(gradient_rows<kFused, C, kPack, 32>);
  } else if (group == 128) {
    run(gradient_rows<kFused, C, kPack, 128>);
  } else if (group == 256) {
    run(gradient_rows<kFused, C, kPack, 256>);
  } else if (group == 512) {
    run(gradient_rows<kFused, C, kPack, 512>);
  } else {
    run(gradient_rows<kFused, C, kPack, 1024>);
  }
  if (sums)
    launch(add_up<C>, dim3(static_cast<unsigned>((length + 31) / 32), 2), dim3(32, 32),
           reinterpret_cast<const C*>(params.partial), parts, length, parameter_array(of_weight),
           parameter_array(of_bias));
}

void norm_backward_kernel(const KernelContext& context, const NormBackwardAttrs& attrs) {
  const int row_dims = attrs.normalized_shape.size();
  size_t next = 1;
  const auto output_if = [&](bool wanted) { return wanted ? &context.output(next++) : nullptr; };
  const View *const of_input = output_if(attrs.apart()), *const of_weight = output_if(attrs.weight),
                    *const of_bias = output_if(attrs.bias);
  const RowsInput grad(context, &context.input(0), row_dims),
      x(context, &context.input(1), row_dims),
      of_sum(context, optional_input(context, 5), row_dims);
  const ParameterInput weight(context, optional_input(context, 4)), mean(context, context.in[2]),
      rstd(context, context.in[3]);
  const View of_x = *with_rows(context.output(0), row_dims),
             dropped = *with_rows(of_input ? *of_input : context.output(0), row_dims);
  const View* const views[5] = {&of_x, &dropped, &grad.view(), &x.view(),
                                of_sum.given() ? &of_sum.view() : &x.view()};
  const DType dtypes[5] = {of_x.dtype, dropped.dtype, grad.view().dtype, x.view().dtype,
                           views[4]->dtype};
  const Lines<5> lines = make_lines<5>(views, of_x.dim() - 1);
  const int64_t rows = context.input(3).numel;
  check(rows < int64_t{1} << 31, context.op, ": expected fewer than 2^31 rows, got ", rows);
  GradientParams params{};
  params.rows = rows_of_lines(lines, dtypes);
  params.rows.count = static_cast<unsigned>(rows);
  params.apart = of_input != nullptr;
  params.adds = of_sum.given();
  params.weight = weight.array();
  params.mean = mean.array().data;
  params.rstd = rstd.array().data;
  params.dropping = dropping_of(context, attrs.p, attrs.seed, attrs.offset);
  const int pack = weight.takes_packs() ? pack_of(lines, dtypes) : 1;
  const auto run = [&]<bool kFused>() {
    if (of_x.dtype == DType::float64)
      run_gradient<true, double, 1>(context, params, of_weight, of_bias);
    else if (pack == 8)
      run_gradient<kFused, float, 8>(context, params, of_weight, of_bias);
    else if (pack == 4)
      run_gradient<kFused, float, 4>(context, params, of_weight, of_bias);
    else
      run_gradient<true, float, 1>(context, params, of_weight, of_bias);
  };
  if (params.adds || params.apart)
    run.template operator()<true>();
  else
    run.template operator()<false>();
}

}  // namespace

void register_norm_backward_cuda() {
  norm_backward_op.set_kernel(DeviceType::cuda, norm_backward_kernel);
}

}  // namespace tensora::cuda
