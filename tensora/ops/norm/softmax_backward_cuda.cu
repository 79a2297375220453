#include "tensora/ops/norm/softmax.h"
#include "tensora/ops/norm/softmax_rows.cuh"

namespace tensora::cuda {
namespace {

constexpr long long kLongestHeld = 16 * 1024;

// What is summed up over a line, and what the sum makes of an element.
template <class C, bool kQuick>
struct Gradient {
  bool log;
  __device__ C term(C grad, C y) const { return log ? grad : grad * y; }
  __device__ C result(C grad, C y, C sum) const {
    return log ? grad - exponential<kQuick>(y) * sum : (grad - sum) * y;
  }
};

// Array 1 is the gradient of the result, array 2 the result; they have one dtype.
template <class C, int kItems, int kPack, unsigned kGroup>
__global__ void __launch_bounds__(kGroup < 256 ? 256 : kGroup)
    gradient_rows(const __grid_constant__ RowsOf<3> params, bool log) {
  constexpr unsigned kBlock = kGroup < 256 ? 256 : kGroup;
  const Gradient<C, kPack == 8> gradient{log};
  const unsigned number = blockIdx.x * (kBlock / kGroup) + threadIdx.x / kGroup;
  if (number >= params.count) return;  // a whole group
  const unsigned lane = threadIdx.x % kGroup;
  const int length = static_cast<int>(params.length);
  long long at[3];
  params.rows.offsets(number, at);
  HeldRow<C, kItems, kPack, kGroup> grad, y;
  grad.load(params.array[1].data + at[1], params.array[1], lane, length, C(0));
  y.load(params.array[2].data + at[2], params.array[2], lane, length, C(0));
  C total = 0;
  grad.each([&](int p, int i, C g) { total += gradient.term(g, y.values[p][i]); });
  total = sum_across<kGroup>(total);
  grad.each([&](int p, int i, C& g) { g = gradient.result(g, y.values[p][i], total); });
  grad.store(params.array[0].data + at[0], params.array[0], lane, length);
}

template <class C, int kPack>
__global__ void __launch_bounds__(1024)
    gradient_long_rows(const __grid_constant__ RowsOf<3> params, bool log) {
  const Gradient<C, kPack == 8> gradient{log};
  long long at[3];
  params.rows.offsets(blockIdx.x, at);
  const char *const grads = params.array[1].data + at[1], *const ys = params.array[2].data + at[2];
  char* const out = params.array[0].data + at[0];
  C total = 0;
  visit_row_dtype<kPack>(params.array[1].dtype, [&]<class T>() {
    for (long long i = threadIdx.x * kPack; i < params.length; i += 1024 * kPack) {
      C grad[kPack], y[kPack];
      load_elements<T>(grads, params.array[1].step, i, grad);
      load_elements<T>(ys, params.array[2].step, i, y);
#pragma unroll
      for (int k = 0; k < kPack; ++k) total += gradient.term(grad[k], y[k]);
    }
  });
  total = sum_across<1024>(total);
  visit_row_dtype<kPack>(params.array[1].dtype, [&]<class T>() {
    for (long long i = threadIdx.x * kPack; i < params.length; i += 1024 * kPack) {
      C grad[kPack], y[kPack];
      load_elements<T>(grads, params.array[1].step, i, grad);
      load_elements<T>(ys, params.array[2].step, i, y);
#pragma unroll
      for (int k = 0; k < kPack; ++k) grad[k] = gradient.result(grad[k], y[k], total);
      visit_row_dtype<kPack>(params.array[0].dtype, [&]<class R>() {
        store_elements<R>(out, params.array[0].step, i, grad);
      });
    }
  });
}

template <class C, int kPack>
__global__ void __launch_bounds__(1024)
    gradient_columns(const __grid_constant__ ColumnsOf<3> params, bool log) {
  const Gradient<C, false> gradient{log};
  char* at[3];
  const bool active = find_columns<kPack>(params, at);
  const RowArray(&array)[3] = params.outer.array;
  const long long length = active ? params.outer.length : 0;
  C total[kPack];
#pragma unroll
  for (int i = 0; i < kPack; ++i) total[i] = 0;
  visit_row_dtype<kPack>(array[1].dtype, [&]<class T>() {
#pragma unroll 4
    for (long long line = threadIdx.y; line < length; line += blockDim.y) {
      C grad[kPack], y[kPack];
      load_elements<T>(at[1] + line * array[1].step, 0, 0, grad);
      load_elements<T>(at[2] + line * array[2].step, 0, 0, y);
#pragma unroll
      for (int i = 0; i < kPack; ++i) total[i] += gradient.term(grad[i], y[i]);
    }
  });
  across_parts<kPack>(total, [](C a, C b) { return a + b; });
  visit_row_dtype<kPack>(array[1].dtype, [&]<class T>() {
#pragma unroll 2
    for (long long line = threadIdx.y; line < length; line += blockDim.y) {
      C grad[kPack], y[kPack];
      load_elements<T>(at[1] + line * array[1].step, 0, 0, grad);
      load_elements<T>(at[2] + line * array[2].step, 0, 0, y);
#pragma unroll
      for (int i = 0; i < kPack; ++i) grad[i] = gradient.result(grad[i], y[i], total[i]);
      visit_row_dtype<kPack>(array[0].dtype, [&]<class R>() {
        store_elements<R>(at[0] + line * array[0].step, 0, 0, grad);
      });
    }
  });
}

template <class C, int kPack>
void run_rows(const KernelContext& context, const RowsOf<3>& params, bool log) {
  const Launch launch{context.op, context.device.index};
  const auto run = [&](auto* kernel, unsigned group) {
    const unsigned block = std::max(256u, group), per_block = block / group;
    launch(kernel, dim3((params.count + per_block - 1) / per_block), dim3(block), params, log);
  };
  if (params.length <= 8 * 32)
    run(gradient_rows<C, 8, kPack, 32>, 32);
  else if (params.length <= 8 * 256)
    run(gradient_rows<C, 8, kPack, 256>, 256);
  else if (params.length <= 8 * 512)
    run(gradient_rows<C, 8, kPack, 512>, 512);
  else if (params.length <= kLongestHeld && sizeof(C) == 4)  // doubles would be spilled
    run(gradient_rows<float, 16, kPack, 1024>, 1024);
  else
    run(gradient_long_rows<C, kPack>, 1024);
}

template <bool kLog>
void gradient_kernel(const KernelContext& context, const SoftmaxAttrs& attrs) {
  const View &out = context.output(), &grad = context.input(0), &y = context.input(1);
  if (out.numel == 0) return;
  check(grad.dtype == y.dtype, context.op, ": expected one dtype, got ", grad.dtype, " and ",
        y.dtype);
  const View* const views[3] = {&out, &grad, &y};
  const DType dtypes[3] = {out.dtype, grad.dtype, y.dtype};
  const Lines<3> lines = make_lines<3>(views, wrap_dim(attrs.dim, out.dim(), context.op));
  const bool wide = y.dtype == DType::float64;
  if (are_columns(lines)) {
    each_columns(lines, dtypes, [&](const ColumnsOf<3>& params, int pack, dim3 block) {
      const Launch launch{context.op, context.device.index};
      const auto kernel = wide        ? gradient_columns<double, 1>
                          : pack == 4 ? gradient_columns<float, 4>
                                      : gradient_columns<float, 1>;
      launch(kernel, dim3(params.tiles * params.outer.count), block, params, kLog);
    });
    return;
  }
  each_part(lines, [&](const Lines<3>& part) {
    const RowsOf<3> params = rows_of_lines(part, dtypes);
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

void register_softmax_backward_cuda() {
  softmax_backward_op.set_kernel(DeviceType::cuda, gradient_kernel<false>);
  log_softmax_backward_op.set_kernel(DeviceType::cuda, gradient_kernel<true>);
}

}  // namespace tensora::cuda
