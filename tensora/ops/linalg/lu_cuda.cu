#include "tensora/ops/linalg/lu.h"

#include "tensora/backend/cuda/linalg/factor.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/infos.h"

namespace tensora::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t items) {
  return static_cast<unsigned>(std::min<int64_t>((items + kThreads - 1) / kThreads, 4096));
}

__global__ void count_up(int32_t* pivots, int64_t k, int64_t count) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x)
    pivots[i] = static_cast<int32_t>(i % k + 1);
}

// The exchanges of one matrix depend on each other; the matrices of a batch do not. A pivot that is
// out of range, which only the user's own can be, is passed over.
__global__ void permute(const int32_t* pivots, int64_t k, int64_t rows, int64_t count,
                        int64_t* orders) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    int64_t* const order = orders + i * rows;
    for (int64_t row = 0; row < rows; ++row) order[row] = row;
    for (int64_t row = 0; row < k; ++row) {
      const int64_t other = int64_t{pivots[i * k + row]} - 1;
      if (other < 0 || other >= rows) continue;
      const int64_t moved = order[row];
      order[row] = order[other];
      order[other] = moved;
    }
  }
}

/// The pivots, row-major and one list per matrix of `batch`.
class Pivots {
 public:
  Pivots(const KernelContext& context, const View& pivots, const Shape& batch) : view_(pivots) {
    Shape sizes = batch;
    sizes.push_back(pivots.sizes[pivots.dim() - 1]);
    if (pivots.contiguous && sizes == pivots.sizes) return;
    view_.sizes = sizes;
    view_.strides = contiguous_strides(sizes);
    view_.update();
    copy_.emplace(context.device.index, view_.bytes());
    view_.data = copy_->data();
    copy_elements(context.op, pivots, view_);
  }
  const View& view() const { return view_; }

 private:
  View view_;
  std::optional<Scratch> copy_;
};

void lu_factor_kernel(const KernelContext& context, const LuAttrs& attrs) {
  const View &LU = context.output(0), &pivots = context.output(1), &infos = context.output(2);
  if (LU.numel == 0) return fill_elements(context.op, infos, 0);
  copy_elements(context.op, context.input(0), LU);
  factorise_lu({.context = context,
                .dtype = LU.dtype,
                .count = batch_sizes(LU).numel(),
                .m = LU.sizes[LU.dim() - 2],
                .n = LU.sizes[LU.dim() - 1]},
               columns_of(LU), attrs.pivot, pivots, infos.as<int32_t>());
  if (!attrs.pivot)
    Launch{context.op, context.device.index}(count_up, dim3(blocks_for(pivots.numel)),
                                             dim3(kThreads), pivots.as<int32_t>(),
                                             pivots.sizes[pivots.dim() - 1], pivots.numel);
  if (!attrs.check_errors_as.empty())
    check_infos(attrs.check_errors_as, read_infos(context, infos), LU.dim() > 2);
}

void lu_solve_kernel(const KernelContext& context, const LuSolveAttrs& attrs) {
  const View& X = context.output();
  if (X.numel == 0) return;
  copy_elements(context.op, context.input(2), X);
  const Shape batch = batch_sizes(X);
  const Columns factors(context, context.input(0), batch);
  const Pivots pivots(context, context.input(1), batch);
  solve_lu({.context = context,
            .dtype = X.dtype,
            .count = batch.numel(),
            .m = X.sizes[X.dim() - 2],
            .n = X.sizes[X.dim() - 1]},
           factors.matrices(), pivots.view(), columns_of(X), attrs.adjoint);
}

void permutation_kernel(const KernelContext& context, const PermutationAttrs& attrs) {
  const View& out = context.output();
  if (out.numel == 0) return;
  const Shape batch = batch_sizes(out, 1);
  const Pivots pivots(context, context.input(0), batch);
  Launch{context.op, context.device.index}(
      permute, dim3(blocks_for(batch.numel())), dim3(kThreads), pivots.view().as<int32_t>(),
      pivots.view().sizes[pivots.view().dim() - 1], attrs.rows, batch.numel(), out.as<int64_t>());
}

}  // namespace

void register_lu_cuda() {
  lu_factor_op.set_kernel(DeviceType::cuda, lu_factor_kernel);
  lu_solve_op.set_kernel(DeviceType::cuda, lu_solve_kernel);
  pivots_to_permutation_op.set_kernel(DeviceType::cuda, permutation_kernel);
}

}  // namespace tensora::cuda
