#include "tensora/backend/cuda/runtime/shared_memory.h"
#include "tensora/ops/norm/norm_backward_ahead.cuh"

namespace tensora::cuda {
namespace {

constexpr int kPlainItems = 8;

constexpr unsigned plain_block(unsigned group) { return group == kWarpThreads ? 256 : group; }

// Rows of double, and rows that do not lie in packs.
template <class C, unsigned kGroup>
__global__ void __launch_bounds__(plain_block(kGroup), plain_block(kGroup) < 512 ? 3 : 1)
    gradient_rows(const __grid_constant__ GradientParams params) {
  constexpr unsigned kGroups = plain_block(kGroup) / kGroup;
  using Row = HeldRow<C, kPlainItems, 1, kGroup>;
  const RowArray(&array)[5] = params.rows.array;
  const unsigned lane = threadIdx.x % kGroup;
  const int length = static_cast<int>(params.rows.length);
  Row of_weight, of_bias;
  of_weight.each([](int, int, C& sum) { sum = 0; });
  of_bias.each([](int, int, C& sum) { sum = 0; });
  for (unsigned row = blockIdx.x * kGroups + threadIdx.x / kGroup; row < params.rows.count;
       row += gridDim.x * kGroups) {
    long long at[5];
    params.rows.rows.offsets(row, at);
    RawRow<Row> raw_grad, raw_x, raw_sum;
    const auto fetch_array = [&](int k, RawRow<Row>& to) {
      to.fetch_row(array[k].data + at[k], array[k], lane, length);
    };
    fetch_array(kGrad, raw_grad);
    fetch_array(kX, raw_x);
    if (params.adds) fetch_array(kOfSum, raw_sum);
    Row grad, x;
    raw_grad.convert_row(array[kGrad], lane, length, grad);
    raw_x.convert_row(array[kX], lane, length, x);
    const RowStatistics<C> statistics = statistics_of<C>(params, row);
    C plain = 0, along = 0;
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      if (Row::position(p, lane) >= length) continue;
      C weight[1];
      load_weight(params, Row::position(p, lane), weight);
      C &g = grad.values[p][0], &value = x.values[p][0];
      value = statistics.value(value);
      of_weight.values[p][0] += g * value;
      of_bias.values[p][0] += g;
      g *= weight[0];
      plain += g;
      along += g * value;
    }
    const Common<C> common(params, sums_across<kGroup>(plain, along));
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      if (Row::position(p, lane) >= length) continue;
      C added[1] = {};
      if (params.adds) raw_sum.convert(array[kOfSum], p, added);
      grad.values[p][0] = common.of_x(statistics, grad.values[p][0], x.values[p][0]) + added[0];
    }
    store_row_of<true>(params, row, lane, grad);
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
  const RowStatistics<C> statistics = statistics_of<C>(params, row);
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
    for (int k = 0; k < kPack; ++k) grad[k] = common.of_x(statistics, grad[k], value[k]);
    if (params.adds) {
      C other[kPack];
      visit_row_dtype<kPack>(array[kOfSum].dtype, [&]<class T>() {
        load_elements<T>(array[kOfSum].data + at[kOfSum], array[kOfSum].step, i, other);
      });
#pragma unroll
      for (int k = 0; k < kPack; ++k) grad[k] += other[k];
    }
    const auto store_to = [&](int k) {
      visit_row_dtype<kPack>(array[k].dtype, [&]<class T>() {
        store_elements<T>(array[k].data + at[k], array[k].step, i, grad);
      });
    };
    store_to(kOfX);
    if (!params.apart) return;
    if (params.dropping.active) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) grad[k] *= static_cast<C>(dropped_factor(params, row, i + k));
    }
    store_to(kOfInput);
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
    of_weight += grad[0] * statistics_of<C>(params, row).value(x[0]);
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

/// One call: what is launched on, and where the sums over rows go; null: not wanted.
struct GradientCall {
  const KernelContext& context;
  const View *of_weight, *of_bias;
  unsigned processors;

  bool sums() const { return of_weight || of_bias; }
};

/// Runs `rows_kernel(params)`, which leaves the sums of `parts` parts of the rows, and adds them
/// up.
template <class C, class RowsKernel>
void run_parts(const GradientCall& call, GradientParams params, unsigned parts,
               const RowsKernel& rows_kernel) {
  const KernelContext& context = call.context;
  const long long length = params.rows.length;
  std::optional<Scratch> scratch;
  if (call.sums()) {
    scratch.emplace(
        context.device.index,
        std::max<size_t>(1, size_t{parts} * 2 * static_cast<size_t>(length) * sizeof(C)));
    params.partial = scratch->data();
  }
  if (params.rows.count != 0) rows_kernel(params);  // else sums of nothing
  if (call.sums())
    Launch{context.op, context.device.index}(
        add_up<C>, dim3(static_cast<unsigned>((length + 31) / 32), 2), dim3(32, 32),
        reinterpret_cast<const C*>(params.partial), parts, length, parameter_array(call.of_weight),
        parameter_array(call.of_bias));
}

template <class C, int kPack>
void run_long_rows(const GradientCall& call, const GradientParams& params) {
  const unsigned rows = params.rows.count, rows_per_part = std::max(32u, (rows + 127) / 128);
  const unsigned parts = (rows + rows_per_part - 1) / rows_per_part;
  const Launch launch{call.context.op, call.context.device.index};
  run_parts<C>(call, params, parts, [&](const GradientParams& with_partial) {
    launch(gradient_long_rows<C, kPack>, dim3(rows), dim3(1024), with_partial);
    if (call.sums())
      launch(columns_of_gradients<C>,
             dim3(static_cast<unsigned>((params.rows.length + 255) / 256), parts), dim3(256),
             with_partial, rows_per_part);
  });
}

template <class C>
void run_plain_rows(const GradientCall& call, const GradientParams& params) {
  const auto run = [&]<unsigned kGroup>() {
    constexpr unsigned kBlock = plain_block(kGroup), kGroups = kBlock / kGroup;
    const unsigned most = call.processors * (kBlock < 512 ? 768 / kBlock : 1);
    const unsigned parts = std::min((params.rows.count + kGroups - 1) / kGroups, most);
    run_parts<C>(call, params, parts, [&](const GradientParams& with_partial) {
      Launch{call.context.op, call.context.device.index}(gradient_rows<C, kGroup>, dim3(parts),
                                                         dim3(kBlock), with_partial);
    });
  };
  const long long length = params.rows.length;
  if (length <= kPlainItems * 32)
    run.template operator()<32>();
  else if (length <= kPlainItems * 256)
    run.template operator()<256>();
  else if (length <= kPlainItems * 1024)
    run.template operator()<1024>();
  else
    run_long_rows<C, 1>(call, params);
}

template <bool kFused, int kPack>
void run_packed_rows(const GradientCall& call, const GradientParams& params) {
  const auto run = [&]<int kItems, unsigned kGroup>() {
    using Shape = AheadShape<kFused, kPack, kItems, kGroup>;
    const unsigned parts = std::min((params.rows.count + Shape::kGroups - 1) / Shape::kGroups,
                                    call.processors * Shape::kBlocks);
    auto* const kernel = gradient_rows_ahead<kFused, kPack, kItems, kGroup>;
    const int device = call.context.device.index;
    allow_shared_memory(device, reinterpret_cast<const void*>(kernel), Shape::kShared);
    run_parts<float>(call, params, parts, [&](const GradientParams& with_partial) {
      Launch{call.context.op, device, Shape::kShared}(kernel, dim3(parts), dim3(Shape::kBlock),
                                                      with_partial);
    });
  };
  const long long length = params.rows.length;
  if (length <= 8 * 32)
    run.template operator()<8, 32>();
  else if (length <= 8 * 128)
    run.template operator()<8, 128>();
  else if (length <= 16 * 128)
    run.template operator()<16, 128>();
  else if (length <= 16 * 256)
    run.template operator()<16, 256>();
  else if (length <= 16 * 512)
    run.template operator()<16, 512>();
  else
    run_long_rows<float, kPack>(call, params);
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
  const GradientCall call{context, of_weight, of_bias,
                          static_cast<unsigned>(device_info(context.device.index).multiprocessors)};
  const bool fused = params.adds || params.apart;
  if (of_x.dtype == DType::float64)
    run_plain_rows<double>(call, params);
  else if (pack == 8)
    fused ? run_packed_rows<true, 8>(call, params) : run_packed_rows<false, 8>(call, params);
  else if (pack == 4)
    fused ? run_packed_rows<true, 4>(call, params) : run_packed_rows<false, 4>(call, params);
  else
    run_plain_rows<float>(call, params);
}

}  // namespace

void register_norm_backward_cuda() {
  norm_backward_op.set_kernel(DeviceType::cuda, norm_backward_kernel);
}

}  // namespace tensora::cuda
