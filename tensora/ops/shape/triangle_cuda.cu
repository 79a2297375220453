#include "tensora/ops/shape/triangle.h"

#include <algorithm>

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/loops/reduce_params.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

struct TriangleParams {
  const char* in;
  char* out;
  WideWalk<2> batches;                       // in, out; in bytes
  int64_t in_row, in_col, out_row, out_col;  // strides in bytes
  int64_t rows, cols, diagonal;
  unsigned batch_count;
};

// A block takes 256 columns of a row; rows and matrices are walked in steps of the grid.
template <class T, bool kLower>
__global__ void __launch_bounds__(kThreads)
    triangle(const __grid_constant__ TriangleParams params) {
  const int64_t col = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col >= params.cols) return;
  for (unsigned batch = blockIdx.z; batch < params.batch_count; batch += gridDim.z) {
    long long at[2];
    params.batches.offsets(batch, at);
    for (int64_t row = blockIdx.y; row < params.rows; row += gridDim.y) {
      const int64_t beyond = col - row - params.diagonal;
      const bool kept = kLower ? beyond <= 0 : beyond >= 0;
      const char* const from = params.in + at[0] + row * params.in_row + col * params.in_col;
      char* const to = params.out + at[1] + row * params.out_row + col * params.out_col;
      *reinterpret_cast<T*>(to) = kept ? *reinterpret_cast<const T*>(from) : T{};
    }
  }
}

/// Columns of a group: one access of 16 bytes.
template <class T>
inline constexpr int kGroup = 16 / static_cast<int>(sizeof(T));

// The same by groups of adjacent columns, where they are contiguous and aligned. A group of which
// nothing is kept is not read.
template <class T, bool kLower>
__global__ void __launch_bounds__(kThreads)
    triangle_groups(const __grid_constant__ TriangleParams params) {
  constexpr int G = kGroup<T>;
  const int64_t col = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * G;
  if (col >= params.cols) return;
  for (unsigned batch = blockIdx.z; batch < params.batch_count; batch += gridDim.z) {
    long long at[2];
    params.batches.offsets(batch, at);
    for (int64_t row = blockIdx.y; row < params.rows; row += gridDim.y) {
      const int64_t beyond = col - row - params.diagonal;
      const bool some = kLower ? beyond <= 0 : beyond + G > 0;
      const char* const from = params.in + at[0] + row * params.in_row + col * params.in_col;
      char* const to = params.out + at[1] + row * params.out_row + col * params.out_col;
      Pack<T, G> group{};
      if (some) group = *reinterpret_cast<const Pack<T, G>*>(from);
#pragma unroll
      for (int i = 0; i < G; ++i)
        if (kLower ? beyond + i > 0 : beyond + i < 0) group.items[i] = T{};
      *reinterpret_cast<Pack<T, G>*>(to) = group;
    }
  }
}

bool has_groups(const TriangleParams& params, int64_t bytes) {
  const auto is_whole = [](int64_t distance) { return distance % 16 == 0; };
  bool whole = params.in_col == bytes && params.out_col == bytes && is_whole(params.cols * bytes) &&
               is_whole(params.in_row) && is_whole(params.out_row) &&
               is_whole(reinterpret_cast<intptr_t>(params.in)) &&
               is_whole(reinterpret_cast<intptr_t>(params.out));
  for (int d = 0; d < params.batches.dims; ++d)
    whole =
        whole && is_whole(params.batches.strides[0][d]) && is_whole(params.batches.strides[1][d]);
  return whole;
}

WideWalk<2> batch_walk(const View& in, const View& out) {
  WideWalk<2> walk{};
  const auto bytes = static_cast<int64_t>(element_size(out.dtype));
  for (int d = out.dim() - 3; d >= 0; --d) {
    const DivisorNumbers numbers = divisor_numbers(out.sizes[d]);
    walk.sizes[walk.dims] = {numbers.divisor, numbers.multiplier, numbers.shift};
    walk.strides[0][walk.dims] = in.strides[d] * bytes;
    walk.strides[1][walk.dims] = out.strides[d] * bytes;
    ++walk.dims;
  }
  if (walk.dims == 0) walk.dims = 1;  // one matrix: index 0, offset 0
  return walk;
}

template <bool kLower>
void triangle_kernel(const KernelContext& context, const TriangleAttrs& attrs) {
  const View &in = context.input(0), &out = context.output();
  if (out.numel == 0) return;
  const int row_dim = out.dim() - 2, col_dim = out.dim() - 1;
  const auto bytes = static_cast<int64_t>(element_size(out.dtype));
  TriangleParams params{};
  params.in = in.as<const char>();
  params.out = out.as<char>();
  params.batches = batch_walk(in, out);
  params.in_row = in.strides[row_dim] * bytes;
  params.in_col = in.strides[col_dim] * bytes;
  params.out_row = out.strides[row_dim] * bytes;
  params.out_col = out.strides[col_dim] * bytes;
  params.rows = out.sizes[row_dim];
  params.cols = out.sizes[col_dim];
  // Beyond any matrix a diagonal has no further effect, and must not overflow.
  const int64_t limit = params.rows + params.cols;
  params.diagonal = std::clamp(attrs.diagonal, -limit, limit);
  const int64_t batches = out.numel / (params.rows * params.cols);
  check(batches < int64_t{1} << 31, context.op, ": more than 2^31 matrices");
  params.batch_count = static_cast<unsigned>(batches);
  const auto at_most = [](int64_t count) {
    return static_cast<unsigned>(std::min<int64_t>(count, 65535));
  };
  const bool groups = has_groups(params, bytes);
  const int64_t across = groups ? params.cols * bytes / 16 : params.cols;
  const dim3 grid(static_cast<unsigned>((across + kThreads - 1) / kThreads), at_most(params.rows),
                  at_most(batches));
  const Launch launch{context.op, context.device.index};
  visit_element_size(out.dtype, [&]<class T>() {
    launch(groups ? triangle_groups<T, kLower> : triangle<T, kLower>, grid, dim3(kThreads), params);
  });
}

}  // namespace

void register_triangle_cuda() {
  tril_op.set_kernel(DeviceType::cuda, triangle_kernel<true>);
  triu_op.set_kernel(DeviceType::cuda, triangle_kernel<false>);
}

}  // namespace tensora::cuda
