#include "tensora/ops/matrix/matmul.h"

#include <optional>

#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tensora/backend/cuda/matmul/vector_matmul.h"
#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/matrix/addmm.h"

namespace tensora::cuda {
namespace {

// Integer products: a tile of each operand in shared memory, one result per thread. Results wrap.
constexpr int kTile = 16;

template <class T>
__global__ void integer_matmul(Matmul args, int64_t alpha, int64_t beta) {
  __shared__ int64_t tile_a[kTile][kTile], tile_b[kTile][kTile + 1];
  const int64_t row = int64_t{blockIdx.y} * kTile + threadIdx.y;
  const int64_t col = int64_t{blockIdx.x} * kTile + threadIdx.x;
  for (int64_t batch = blockIdx.z; batch < args.batch; batch += gridDim.z) {
    const T* const a = static_cast<const T*>(args.a.data) + batch * args.a.batch_stride;
    const T* const b = static_cast<const T*>(args.b.data) + batch * args.b.batch_stride;
    int64_t sum = 0;
    for (int64_t start = 0; start < args.k; start += kTile) {
      const int64_t k_a = start + threadIdx.x, k_b = start + threadIdx.y;
      tile_a[threadIdx.y][threadIdx.x] =
          row < args.m && k_a < args.k ? a[row * args.a.row_stride + k_a * args.a.col_stride] : 0;
      tile_b[threadIdx.y][threadIdx.x] =
          k_b < args.k && col < args.n ? b[k_b * args.b.row_stride + col * args.b.col_stride] : 0;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kTile; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
      __syncthreads();
    }
    if (row >= args.m || col >= args.n) continue;
    T& out = static_cast<T*>(args.out.data)[batch * args.out.batch_stride +
                                            row * args.out.row_stride + col * args.out.col_stride];
    out = static_cast<T>(alpha * sum + (beta == 0 ? 0 : beta * static_cast<int64_t>(out)));
  }
}

void run_integers(const Matmul& args) {
  const auto tiles = [](int64_t size) { return static_cast<unsigned>((size + kTile - 1) / kTile); };
  const dim3 grid(tiles(args.n), tiles(args.m),
                  static_cast<unsigned>(std::min<int64_t>(args.batch, 65535)));
  check(tiles(args.m) <= 65535, args.op, ": integer matrices on cuda have at most ", 65535 * kTile,
        " rows, got ", args.m);
  visit_dtype(args.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      Launch{args.op, args.device}(integer_matmul<T>, grid, dim3(kTile, kTile), args,
                                   static_cast<int64_t>(args.alpha),
                                   static_cast<int64_t>(args.beta));
  });
}

// A view's batch dims, broadcast to those of the result, as strides.
Strides batch_strides(const View& view, const Shape& batch) {
  Shape sizes = view.sizes;
  Strides strides = view.strides;
  sizes.resize(view.dim() - 2);
  strides.resize(view.dim() - 2);
  return broadcast_strides(sizes, strides, batch);
}

MatrixBatch matrices(const View& view, int64_t offset, int64_t batch_stride) {
  return {view.as<char>() + offset * static_cast<int64_t>(element_size(view.dtype)), batch_stride,
          view.strides[view.dim() - 2], view.strides[view.dim() - 1]};
}

/// Merges adjacent batch dims where the strides of every operand allow it.
void join_batches(Shape& batch, Strides& a, Strides& b, Strides& out) {
  for (int d = batch.size() - 1; d > 0; --d) {
    const bool joins = a[d - 1] == a[d] * batch[d] && b[d - 1] == b[d] * batch[d] &&
                       out[d - 1] == out[d] * batch[d];
    if (!joins) continue;
    batch[d - 1] *= batch[d];
    for (Strides* steps : {&a, &b, &out}) {
      (*steps)[d - 1] = (*steps)[d];
      steps->erase(d);
    }
    batch.erase(d);
  }
}

// out = epilogue(alpha * a @ b + beta * out). The innermost batch dim goes to the library as its
// batch; further ones are looped over, unless all of them together have one stride. False if the
// library lacks the epilogue.
bool multiply(const KernelContext& context, const View& a, const View& b, const View& out,
              double alpha, double beta, const Epilogue& epilogue = {}) {
  Shape batch = out.sizes;
  batch.resize(out.dim() - 2);
  Strides a_steps = batch_strides(a, batch), b_steps = batch_strides(b, batch),
          out_steps = batch_strides(out, batch);
  join_batches(batch, a_steps, b_steps, out_steps);
  const int inner = batch.size() - 1;
  int64_t outer_count = 1;
  for (int d = 0; d < inner; ++d) outer_count *= batch[d];
  for (int64_t outer = 0; outer < outer_count; ++outer) {
    int64_t rest = outer, a_at = 0, b_at = 0, out_at = 0;
    for (int d = inner - 1; d >= 0; --d) {
      const int64_t index = rest % batch[d];
      rest /= batch[d];
      a_at += index * a_steps[d];
      b_at += index * b_steps[d];
      out_at += index * out_steps[d];
    }
    const Matmul args{.op = context.op,
                      .device = context.device.index,
                      .dtype = out.dtype,
                      .batch = inner < 0 ? 1 : batch[inner],
                      .m = out.sizes[out.dim() - 2],
                      .n = out.sizes[out.dim() - 1],
                      .k = a.sizes[a.dim() - 1],
                      .a = matrices(a, a_at, inner < 0 ? 0 : a_steps[inner]),
                      .b = matrices(b, b_at, inner < 0 ? 0 : b_steps[inner]),
                      .out = matrices(out, out_at, inner < 0 ? 0 : out_steps[inner]),
                      .alpha = alpha,
                      .beta = beta,
                      .epilogue = epilogue};
    if (!is_floating_point(out.dtype))
      run_integers(args);
    else if (!vector_matmul(args) && !blas_matmul(args))
      return false;
  }
  return true;
}

/// A view that the library can read: itself, or a contiguous copy.
class Readable {
 public:
  Readable(const KernelContext& context, const View& view) : view_(view) {
    const MatrixBatch matrix = matrices(view, 0, 0);
    const int64_t rows = view.sizes[view.dim() - 2], cols = view.sizes[view.dim() - 1];
    if (!is_floating_point(view.dtype) || is_blas_layout(matrix, rows, cols)) return;
    copy_.emplace(context.device.index, view.bytes());
    view_.data = copy_->data();
    view_.strides = contiguous_strides(view.sizes);
    view_.update();
    copy_elements(context.op, view, view_);
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<Scratch> copy_;
};

// An empty sum: the library refuses it, so a single row and column of zeros are multiplied.
void multiply_nothing(const KernelContext& context, const View& out, double beta) {
  if (beta == 0) return fill_elements(context.op, out, 0);
  const int64_t m = out.sizes[out.dim() - 2], n = out.sizes[out.dim() - 1];
  const Scratch zeros(context.device.index,
                      static_cast<size_t>(std::max(m, n)) * element_size(out.dtype));
  View column = out;
  column.data = zeros.data();
  column.sizes = {m, 1};
  column.strides = {1, 1};
  column.update();
  View row = column;
  row.sizes = {1, n};
  row.strides = {n, 1};
  row.update();
  fill_elements(context.op, m > n ? column : row, 0);
  multiply(context, column, row, out, 1, beta);
}

void multiply_any(const KernelContext& context, const View& a, const View& b, const View& out,
                  double alpha, double beta) {
  if (out.numel == 0) return;
  if (a.sizes[a.dim() - 1] == 0) return multiply_nothing(context, out, beta);
  const Readable readable_a(context, a), readable_b(context, b);
  multiply(context, readable_a.view(), readable_b.view(), out, alpha, beta);
}

// out = alpha * a @ b + bias with one number per column, in one kernel. False where the library
// cannot, or the bias is no such row: then nothing was done. In float64 the library's kernels with
// a bias are half as fast as those without, and a separate pass is cheaper.
bool multiply_with_bias(const KernelContext& context, const View& bias, const View& a,
                        const View& b, const View& out, double alpha) {
  constexpr uintptr_t kAlignment = 16;
  const int64_t n = out.sizes[out.dim() - 1];
  const bool is_row = bias.numel == n && bias.dim() > 0 && bias.sizes[bias.dim() - 1] == n &&
                      bias.strides[bias.dim() - 1] == 1 &&
                      reinterpret_cast<uintptr_t>(bias.data) % kAlignment == 0;
  if (!is_floating_point(out.dtype) || out.dtype == DType::float64 || out.dim() != 2 ||
      !out.contiguous || !is_row || out.numel == 0 || a.sizes[1] == 0 || bias.data == out.data)
    return false;
  const Readable readable_a(context, a), readable_b(context, b);
  return multiply(context, readable_a.view(), readable_b.view(), out, alpha, 0,
                  {.bias = bias.data});
}

void matmul_kernel(const KernelContext& context, const NoAttrs&) {
  multiply_any(context, context.input(0), context.input(1), context.output(), 1, 0);
}

void addmm_kernel(const KernelContext& context, const AddmmAttrs& attrs) {
  const View &input = context.input(0), &out = context.output();
  const double alpha = attrs.alpha.to<double>(), beta = attrs.beta.to<double>();
  // The library writes row-major results; another layout (in place) goes through a copy. A
  // contiguous one may still have other strides, where a dim has one element.
  View result = out;
  result.strides = contiguous_strides(out.sizes);
  result.update();
  if (beta == 1 && out.contiguous &&
      multiply_with_bias(context, input, context.input(1), context.input(2), result, alpha))
    return;
  std::optional<Scratch> copy;
  if (!out.contiguous) {
    copy.emplace(context.device.index, out.bytes());
    result.data = copy->data();
  }
  // With beta 0 the input is not read at all: its NaNs do not matter.
  if (beta != 0 && input.data != result.data) copy_elements(context.op, input, result);
  multiply_any(context, context.input(1), context.input(2), result, alpha, beta);
  if (!out.contiguous) copy_elements(context.op, result, out);
}

}  // namespace

void register_matmul_cuda() {
  matmul_op.set_kernel(DeviceType::cuda, matmul_kernel);
  addmm_op.set_kernel(DeviceType::cuda, addmm_kernel);
}

}  // namespace tensora::cuda
