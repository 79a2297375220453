#include "tensora/backend/cuda/linalg/columns.h"

#include <algorithm>

#include "tensora/backend/cuda/linalg/pointers.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/wait.h"

namespace tensora::cuda {
namespace {

/// The one distance between consecutive matrices, if there is one.
std::optional<int64_t> batch_step(const View& view, const Shape& batch) {
  Shape sizes = view.sizes;
  Strides strides = view.strides;
  sizes.resize(view.dim() - 2);
  strides.resize(view.dim() - 2);
  strides = broadcast_strides(sizes, strides, batch);
  std::optional<int64_t> step;
  int64_t count = 1;  // of the matrices that one step of this dim passes
  for (int d = batch.size() - 1; d >= 0; --d) {
    if (batch[d] == 1) continue;
    if (!step) step = strides[d];
    if (strides[d] != *step * count) return {};
    count *= batch[d];
  }
  return step.value_or(0);
}

bool is_stored_by(int64_t inner, int64_t outer, int64_t inner_size, int64_t outer_size) {
  return (inner == 1 || inner_size <= 1) && (outer >= inner_size || outer_size <= 1);
}

int64_t leading(int64_t outer, int64_t inner_size, int64_t outer_size) {
  return std::max<int64_t>({1, inner_size, outer_size <= 1 ? 1 : outer});
}

}  // namespace

Columns::Columns(const KernelContext& context, const View& view, const Shape& batch,
                 MatrixOrder order) {
  const int rows = view.dim() - 2, cols = view.dim() - 1;
  const int64_t m = view.sizes[rows], n = view.sizes[cols];
  const int64_t row_stride = view.strides[rows], col_stride = view.strides[cols];
  const auto bytes = static_cast<int64_t>(element_size(view.dtype));
  const std::optional<int64_t> step = batch_step(view, batch);
  if (step && is_stored_by(row_stride, col_stride, m, n)) {
    matrices_ = {view.as<char>(), leading(col_stride, m, n), *step * bytes, false};
    return;
  }
  if (order == MatrixOrder::columns_or_rows && step && is_stored_by(col_stride, row_stride, n, m)) {
    matrices_ = {view.as<char>(), leading(row_stride, n, m), *step * bytes, true};
    return;
  }
  View copy = view;
  copy.sizes = batch;
  copy.sizes.push_back(n);
  copy.sizes.push_back(m);
  copy.strides = contiguous_strides(copy.sizes);
  const int last = copy.dim() - 1;
  std::swap(copy.sizes[last], copy.sizes[last - 1]);
  std::swap(copy.strides[last], copy.strides[last - 1]);
  copy.update();
  copy_.emplace(context.device.index, copy.bytes());
  copy.data = copy_->data();
  copy_elements(context.op, view, copy);
  matrices_ = {copy.as<char>(), std::max<int64_t>(1, m), m * n * bytes, false};
}

ColumnBatch columns_of(const View& view) {
  const int rows = view.dim() - 2, cols = view.dim() - 1;
  const int64_t m = view.sizes[rows], n = view.sizes[cols];
  ensure(is_stored_by(view.strides[rows], view.strides[cols], m, n),
         "a result of linear algebra is not stored by columns");
  return {view.as<char>(), leading(view.strides[cols], m, n),
          m * n * static_cast<int64_t>(element_size(view.dtype)), false};
}

PointerArray::PointerArray(const KernelContext& context, const ColumnBatch& matrices, int64_t count)
    : memory_(context.device.index, static_cast<size_t>(count) * sizeof(void*)) {
  fill_pointers(context.op, context.device.index, memory_.data(), matrices.data,
                matrices.batch_bytes, count);
}

std::vector<int32_t> read_infos(const KernelContext& context, const View& infos) {
  std::vector<int32_t> result(static_cast<size_t>(infos.numel));
  const cudaStream_t stream = current_stream(context.device.index);
  check_cuda(cudaMemcpyAsync(result.data(), infos.data, result.size() * sizeof(int32_t),
                             cudaMemcpyDeviceToHost, stream),
             "cudaMemcpyAsync");
  check_cuda(wait_for_stream(stream), context.op);
  return result;
}

}  // namespace tensora::cuda
