#include "tensora/ops/linalg/cholesky.h"

#include "tensora/backend/cuda/linalg/factor.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/infos.h"

namespace tensora::cuda {
namespace {

// Zeros above the diagonal of row-major matrices, or below it.
template <class T>
__global__ void clear_triangle(T* matrices, int64_t n, int64_t count, bool above) {
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count;
       at += int64_t{gridDim.x} * blockDim.x) {
    const int64_t row = at / n % n, col = at % n;
    if (above ? col > row : col < row) matrices[at] = T(0);
  }
}

void cholesky_kernel(const KernelContext& context, const CholeskyAttrs& attrs) {
  const View &L = context.output(0), &infos = context.output(1);
  const int64_t n = L.sizes[L.dim() - 1], count = batch_sizes(L).numel();
  if (L.numel == 0) return fill_elements(context.op, infos, 0);
  copy_elements(context.op, context.input(0), L);
  // The matrix is symmetric: by rows or by columns is the same, but for the triangle's name.
  const auto bytes = static_cast<int64_t>(element_size(L.dtype));
  factorise_cholesky({.context = context, .dtype = L.dtype, .count = count, .m = n, .n = n},
                     {L.as<char>(), n, n * n * bytes, false}, !attrs.upper, infos.as<int32_t>());
  constexpr int kThreads = 256;
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>((L.numel + kThreads - 1) / kThreads, 4096));
  const Launch launch{context.op, context.device.index};
  if (L.dtype == DType::float64)
    launch(clear_triangle<double>, dim3(blocks), dim3(kThreads), L.as<double>(), n, L.numel,
           !attrs.upper);
  else
    launch(clear_triangle<float>, dim3(blocks), dim3(kThreads), L.as<float>(), n, L.numel,
           !attrs.upper);
  if (!attrs.check_errors_as.empty())
    check_infos(attrs.check_errors_as, read_infos(context, infos), L.dim() > 2);
}

}  // namespace

void register_cholesky_cuda() { cholesky_op.set_kernel(DeviceType::cuda, cholesky_kernel); }

}  // namespace tensora::cuda
