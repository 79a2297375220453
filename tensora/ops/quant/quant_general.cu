#include <algorithm>

#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/quant/quant_numbers.cuh"
#include "tensora/ops/quant/quant_results.cuh"

// Any activations times any weights, number by number, and weights as plain numbers.

namespace tensora::cuda {
namespace {

constexpr int kGeneralWarps = 8, kAtOnce = 8;  // rows of activations

// A warp has one row of the weight; sums over its lanes.
template <class Block>
__device__ inline void multiply_row(const RowsCall& call, const char* row, int first,
                                    float (&sums)[kAtOnce]) {
  for (float& sum : sums) sum = 0;
  const int count = min(call.rows - first, kAtOnce);
  for (int k = static_cast<int>(threadIdx.x) % 32; k < call.k; k += 32) {
    const float weight = number_of<Block>(row, k);
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r)
      if (r < count)
        sums[r] = fmaf(weight, any_number(call.x, call.x_dtype, int64_t{first + r} * call.k + k),
                       sums[r]);
  }
#pragma unroll
  for (float& sum : sums)
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      sum += __shfl_xor_sync(kWholeWarp, sum, distance);
}

template <class Block>
__global__ void __launch_bounds__(kGeneralWarps * 32)
    multiply_any_rows(const __grid_constant__ RowsCall call) {
  // first_tile counts rows here.
  const int number =
      static_cast<int>(blockIdx.x) * kGeneralWarps + static_cast<int>(threadIdx.x) / 32;
  const RowsWeight& weight = call.weights[weight_of_tile(call, number)];
  const int n = number - weight.first_tile, lane = static_cast<int>(threadIdx.x) % 32;
  if (n >= weight.rows) return;
  for (int first = 0; first < call.rows; first += kAtOnce) {
    float sums[kAtOnce], up[kAtOnce] = {};
    multiply_row<Block>(call, weight.data + n * weight.row_bytes, first, sums);
    if (weight.up) multiply_row<Block>(call, weight.up + n * weight.row_bytes, first, up);
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r)
      if (lane == r && first + r < call.rows)
        store_product(call, weight, first + r, n, sums[r], up[r],
                      residual_of(call, weight, first + r, n));
  }
}

// A thread unpacks eight numbers of a row.
constexpr int kUnpacked = 8;

template <class Block>
__global__ void __launch_bounds__(kThreads)
    unpack(const char* from, int64_t row_bytes, const float* scale, int64_t rows, int64_t k,
           int64_t per_row, DType dtype, void* to) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= rows * per_row) return;
  const int64_t row = i / per_row, first = i % per_row * kUnpacked;
  const float factor = scale ? scale[row] : 1.0f;
  float values[kUnpacked];
#pragma unroll
  for (int j = 0; j < kUnpacked; ++j)
    values[j] = first + j < k ? number_of<Block>(from + row * row_bytes, first + j) * factor : 0.0f;
  const int64_t at = row * k + first;
  if (k % kUnpacked != 0) {
#pragma unroll
    for (int j = 0; j < kUnpacked; ++j)
      if (first + j < k) store_number(to, dtype, at + j, values[j]);
  } else if (dtype == DType::float32) {
    store_pack<float>(static_cast<char*>(to) + at * 4, values);
  } else if (dtype == DType::float16) {
    store_pack<Half>(static_cast<char*>(to) + at * 2, values);
  } else {
    store_pack<BFloat16>(static_cast<char*>(to) + at * 2, values);
  }
}

unsigned groups_of(std::string_view op, int64_t items, int64_t each) {
  const int64_t groups = (items + each - 1) / each;
  check(groups < int64_t{1} << 31, op, ": too many elements for one launch");
  return static_cast<unsigned>(groups);
}

}  // namespace

void general_rows(std::string_view op, int device, DType weight, const RowsCall& given) {
  RowsCall call = given;
  int64_t rows = 0;
  for (int i = 0; i < call.count; ++i) {
    call.weights[i].first_tile = static_cast<int>(rows);
    rows += call.weights[i].rows;
  }
  const dim3 grid(groups_of(op, rows, kGeneralWarps));
  visit_weight(weight, [&]<class Block>() {
    Launch{op, device}(multiply_any_rows<Block>, grid, dim3(kGeneralWarps * 32), call);
  });
}

void unpack_weight(std::string_view op, int device, DType weight, const char* from,
                   const float* scale, int64_t rows, int64_t k, DType dtype, void* to) {
  const int64_t per_row = (k + kUnpacked - 1) / kUnpacked;
  const dim3 grid(groups_of(op, rows * per_row, kThreads));
  visit_weight(weight, [&]<class Block>() {
    Launch{op, device}(unpack<Block>, grid, dim3(kThreads), from, bytes_of(weight, k), scale, rows,
                       k, per_row, dtype, to);
  });
}

}  // namespace tensora::cuda
