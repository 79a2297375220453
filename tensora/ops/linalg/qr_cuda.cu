#include "tensora/ops/linalg/qr.h"

#include "tensora/backend/cuda/linalg/factor.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/complex.h"
#include "tensora/ops/linalg/batch.h"

namespace tensora::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t items) {
  return static_cast<unsigned>(std::min<int64_t>((items + kThreads - 1) / kThreads, 4096));
}

// The first `rows` rows of the factors (count, n columns of m) on and above the diagonal, zeros
// below.
template <class T>
__global__ void copy_upper(const T* factors, int64_t m, int64_t n, int64_t rows, int64_t total,
                           T* R) {
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < total;
       at += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = at % rows, column = at / rows % n, matrix = at / (rows * n);
    R[at] = row <= column ? factors[(matrix * n + column) * m + row] : T(0);
  }
}

// The columns of the factors that become Q's; zeros in those that they do not have.
template <class T>
__global__ void copy_reflectors(const T* factors, int64_t m, int64_t n, int64_t columns,
                                int64_t total, T* Q) {
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < total;
       at += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = at % m, column = at / m % columns, matrix = at / (m * columns);
    Q[at] = column < n ? factors[(matrix * n + column) * m + row] : T(0);
  }
}

// Ones on the diagonal: the Q of matrices without columns.
template <class T>
__global__ void set_identity(int64_t m, int64_t columns, int64_t total, T* Q) {
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < total;
       at += int64_t{gridDim.x} * blockDim.x)
    Q[at] = at % m == at / m % columns ? T(1) : T(0);
}

template <class T>
void run(const KernelContext& context, bool with_q) {
  const View &A = context.input(0), &Q = context.output(0), &R = context.output(1);
  const Shape batch = batch_sizes(A);
  const int64_t m = A.sizes[A.dim() - 2], n = A.sizes[A.dim() - 1], k = std::min(m, n);
  const int64_t columns = R.sizes[R.dim() - 2], count = batch.numel();
  const Launch launch{context.op, context.device.index};
  if (k == 0) {
    if (with_q && Q.numel > 0)
      launch(set_identity<T>, dim3(blocks_for(Q.numel)), dim3(kThreads), m, columns, Q.numel,
             Q.as<T>());
    return;
  }
  if (count == 0) return;
  const Scratch memory(context.device.index, A.bytes());
  const Scratch tau(context.device.index, static_cast<size_t>(count * k) * sizeof(T));
  View factors = A;
  factors.data = memory.data();
  factors.strides = column_major_strides(A.sizes);
  factors.update();
  copy_elements(context.op, A, factors);
  const Matrices sizes{.context = context, .dtype = A.dtype, .count = count, .m = m, .n = n};
  factorise_qr(sizes, columns_of(factors), tau.data());
  launch(copy_upper<T>, dim3(blocks_for(R.numel)), dim3(kThreads), factors.as<const T>(), m, n,
         columns, R.numel, R.as<T>());
  if (!with_q) return;
  launch(copy_reflectors<T>, dim3(blocks_for(Q.numel)), dim3(kThreads), factors.as<const T>(), m, n,
         columns, Q.numel, Q.as<T>());
  form_q({.context = context, .dtype = A.dtype, .count = count, .m = m, .n = columns},
         columns_of(Q), k, tau.data());
}

void qr_kernel(const KernelContext& context, const QrAttrs& attrs) {
  const bool with_q = attrs.mode != QrMode::r;
  const DType dtype = context.input(0).dtype;
  if (dtype == DType::float64)
    run<double>(context, with_q);
  else if (dtype == DType::complex64)
    run<Complex<float>>(context, with_q);
  else if (dtype == DType::complex128)
    run<Complex<double>>(context, with_q);
  else
    run<float>(context, with_q);
}

}  // namespace

void register_qr_cuda() { qr_op.set_kernel(DeviceType::cuda, qr_kernel); }

}  // namespace tensora::cuda
