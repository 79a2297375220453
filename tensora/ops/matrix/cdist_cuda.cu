#include "tensora/ops/matrix/cdist.h"

#include <algorithm>

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/matrix/cdist_values.h"

namespace tensora::cuda {
namespace {

using namespace distances;

constexpr unsigned kWarp = 32, kThreads = 256;

/// Rows of a batch of matrices.
template <class T>
struct Rows {
  T* data;
  int dims;  // of the batch
  int64_t sizes[kMaxDims], strides[kMaxDims];
  int64_t row_stride, stride;

  explicit Rows(const View& view)
      : data(view.as<T>()),
        dims(view.dim() - 2),
        row_stride(view.strides[view.dim() - 2]),
        stride(view.strides[view.dim() - 1]) {
    for (int d = 0; d < dims; ++d) {
      sizes[d] = view.sizes[d];
      strides[d] = view.strides[d];
    }
  }
  __device__ T* operator()(int64_t batch, int64_t row) const {
    int64_t offset = row * row_stride;
    for (int d = dims - 1; d >= 0; --d) {
      offset += batch % sizes[d] * strides[d];
      batch /= sizes[d];
    }
    return data + offset;
  }
};

// A warp for each pair of points: its lanes read adjacent coordinates.
template <class T, class N>
__global__ void all_distances(N norm, Rows<const T> a, Rows<const T> b, Rows<T> out, int64_t rows,
                              int64_t columns, int64_t length, int64_t total) {
  const unsigned lane = threadIdx.x % kWarp;
  const int64_t warps = int64_t{gridDim.x} * (kThreads / kWarp);
  for (int64_t item = int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp; item < total;
       item += warps) {
    const int64_t j = item % columns, i = item / columns % rows, batch = item / (columns * rows);
    const T *const x = a(batch, i), *const y = b(batch, j);
    T acc = 0;
    for (int64_t k = lane; k < length; k += kWarp)
      acc = norm.add(acc, x[k * a.stride] - y[k * b.stride]);
#pragma unroll
    for (unsigned distance = kWarp / 2; distance > 0; distance /= 2)
      acc = norm.combine(acc, __shfl_xor_sync(0xffffffffu, acc, distance));
    if (lane == 0) out(batch, i)[j * out.stride] = norm.finish(acc);
  }
}

// A thread for each coordinate of each point of x1, which sums over the points of x2 in order.
template <class T, class N>
__global__ void all_slopes(N norm, Rows<const T> g, Rows<const T> a, Rows<const T> b,
                           Rows<const T> distances, Rows<T> out, int64_t rows, int64_t columns,
                           int64_t length, int64_t total) {
  for (int64_t item = int64_t{blockIdx.x} * kThreads + threadIdx.x; item < total;
       item += int64_t{gridDim.x} * kThreads) {
    const int64_t k = item % length, i = item / length % rows, batch = item / (length * rows);
    const T x = a(batch, i)[k * a.stride];
    const T *const grads = g(batch, i), *const apart = distances(batch, i);
    const T* const first = b(batch, 0) + k * b.stride;
    T sum = 0;
    for (int64_t j = 0; j < columns; ++j)
      sum += grads[j * g.stride] *
             norm.slope(x - first[j * b.row_stride], apart[j * distances.stride]);
    out(batch, i)[k * out.stride] = sum;
  }
}

unsigned blocks_for(int64_t items, int64_t per_block) {
  return static_cast<unsigned>(std::min<int64_t>((items + per_block - 1) / per_block, 1 << 16));
}

template <class T>
void run_distances(const KernelContext& context, double p) {
  const View &x1 = context.input(0), &x2 = context.input(1), &out = context.output();
  const int last = x1.dim() - 1;
  visit_norm<T>(p, [&](auto norm) {
    Launch{context.op, context.device.index}(
        all_distances<T, decltype(norm)>, dim3(blocks_for(out.numel, kThreads / kWarp)),
        dim3(kThreads), norm, Rows<const T>(x1), Rows<const T>(x2), Rows<T>(out),
        x1.sizes[last - 1], x2.sizes[last - 1], x1.sizes[last], out.numel);
  });
}

template <class T>
void run_slopes(const KernelContext& context, double p) {
  const View &x1 = context.input(1), &x2 = context.input(2), &out = context.output();
  const int last = x1.dim() - 1;
  visit_norm<T>(p, [&](auto norm) {
    Launch{context.op, context.device.index}(
        all_slopes<T, decltype(norm)>, dim3(blocks_for(out.numel, kThreads)), dim3(kThreads), norm,
        Rows<const T>(context.input(0)), Rows<const T>(x1), Rows<const T>(x2),
        Rows<const T>(context.input(3)), Rows<T>(out), x1.sizes[last - 1], x2.sizes[last - 1],
        x1.sizes[last], out.numel);
  });
}

void cdist_kernel(const KernelContext& context, const CdistAttrs& attrs) {
  if (context.output().numel == 0) return;
  if (context.output().dtype == DType::float64)
    run_distances<double>(context, attrs.p);
  else
    run_distances<float>(context, attrs.p);
}

void cdist_backward_kernel(const KernelContext& context, const CdistAttrs& attrs) {
  if (context.output().numel == 0) return;
  if (context.output().dtype == DType::float64)
    run_slopes<double>(context, attrs.p);
  else
    run_slopes<float>(context, attrs.p);
}

}  // namespace

void register_cdist_cuda() {
  cdist_op.set_kernel(DeviceType::cuda, cdist_kernel);
  cdist_backward_op.set_kernel(DeviceType::cuda, cdist_backward_kernel);
}

}  // namespace tensora::cuda
