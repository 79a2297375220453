#include "tensora/ops/linalg/svd.h"

#include "tensora/backend/cuda/linalg/factor.h"
#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/base/complex.h"
#include "tensora/ops/linalg/batch.h"
#include "tensora/ops/linalg/infos.h"

namespace tensora::cuda {
namespace {

template <class T>
__global__ void set_identity(int64_t rows, int64_t columns, int64_t total, T* out) {
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < total;
       at += int64_t{gridDim.x} * blockDim.x)
    out[at] = at % rows == at / rows % columns ? T(1) : T(0);
}

/// The vectors of matrices without elements.
void fill_identity(const KernelContext& context, const View& out) {
  if (out.dim() < 2 || out.numel == 0) return;
  const int64_t rows = out.sizes[out.dim() - 2], columns = out.sizes[out.dim() - 1];
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>((out.numel + 255) / 256, 4096)));
  const Launch launch{context.op, context.device.index};
  const auto set = [&]<class T>() {
    launch(set_identity<T>, grid, dim3(256), rows, columns, out.numel, out.as<T>());
  };
  if (out.dtype == DType::float64)
    set.operator()<double>();
  else if (out.dtype == DType::complex64)
    set.operator()<Complex<float>>();
  else if (out.dtype == DType::complex128)
    set.operator()<Complex<double>>();
  else
    set.operator()<float>();
}

/// A view of other memory with the sizes of `like`, by columns.
View by_columns(const View& like, const Shape& sizes, char* data) {
  View view = like;
  view.data = data;
  view.sizes = sizes;
  view.strides = column_major_strides(sizes);
  view.update();
  return view;
}

Shape turned(Shape sizes) {
  const int last = sizes.size() - 1;
  std::swap(sizes[last], sizes[last - 1]);
  return sizes;
}

// The library wants at least as many rows as columns: A^T = Vh^T S U^T is decomposed otherwise, and
// its vectors, turned around, are those of A.
void svd_kernel(const KernelContext& context, const SvdAttrs& attrs) {
  const View &A = context.input(0), &U = context.output(0), &S = context.output(1),
             &Vh = context.output(2);
  if (A.numel == 0) {
    fill_identity(context, U);
    return fill_identity(context, Vh);
  }
  const int64_t m = A.sizes[A.dim() - 2], n = A.sizes[A.dim() - 1];
  const int64_t count = batch_sizes(A).numel();
  const int device = context.device.index;
  const bool wide = m < n;
  const Scratch memory(device, A.bytes());
  const Scratch status(device, static_cast<size_t>(count) * sizeof(int32_t));
  const View copy = by_columns(A, wide ? turned(A.sizes) : A.sizes, memory.data());
  copy_elements(context.op, wide ? flipped(A) : A, copy);
  std::optional<Scratch> left_memory, right_memory;
  View left = U, right = Vh;  // of what is decomposed
  ColumnBatch left_columns, right_columns;
  if (attrs.compute_uv) {
    if (wide) {
      left_memory.emplace(device, Vh.bytes());
      right_memory.emplace(device, U.bytes());
      left = by_columns(Vh, turned(Vh.sizes), left_memory->data());
      right = by_columns(U, turned(U.sizes), right_memory->data());
    }
    left_columns = columns_of(left);
    right_columns = columns_of(right);
  } else {
    left_columns.ld = std::max(m, n);
    right_columns.ld = std::min(m, n);
  }
  decompose_svd({.context = context,
                 .dtype = A.dtype,
                 .count = count,
                 .m = std::max(m, n),
                 .n = std::min(m, n)},
                columns_of(copy), S.data, left_columns, right_columns, attrs.full_matrices,
                reinterpret_cast<int32_t*>(status.data()));
  if (attrs.compute_uv && wide) {
    copy_elements(context.op, flipped(left), Vh);
    copy_elements(context.op, flipped(right), U);
  }
  View infos = S;
  infos.dtype = DType::int32;
  infos.data = status.data();
  infos.sizes = {count};
  infos.strides = {1};
  infos.update();
  check_infos("linalg.svd", read_infos(context, infos), A.dim() > 2);
}

void eigh_kernel(const KernelContext& context, const EighAttrs& attrs) {
  const View &A = context.input(0), &L = context.output(0), &V = context.output(1);
  if (A.numel == 0) return;
  const int64_t n = A.sizes[A.dim() - 1], count = batch_sizes(A).numel();
  const int device = context.device.index;
  const Scratch status(device, static_cast<size_t>(count) * sizeof(int32_t));
  std::optional<Scratch> memory;
  View matrices = V;
  if (!attrs.compute_v) {
    memory.emplace(device, A.bytes());
    matrices = by_columns(A, A.sizes, memory->data());
  }
  copy_elements(context.op, A, matrices);
  decompose_symmetric({.context = context, .dtype = A.dtype, .count = count, .m = n, .n = n},
                      columns_of(matrices), L.data, attrs.compute_v, attrs.upper,
                      reinterpret_cast<int32_t*>(status.data()));
  View infos = L;
  infos.dtype = DType::int32;
  infos.data = status.data();
  infos.sizes = {count};
  infos.strides = {1};
  infos.update();
  check_infos("linalg.eigh", read_infos(context, infos), A.dim() > 2);
}

}  // namespace

void register_svd_cuda() {
  svd_op.set_kernel(DeviceType::cuda, svd_kernel);
  eigh_op.set_kernel(DeviceType::cuda, eigh_kernel);
}

}  // namespace tensora::cuda
