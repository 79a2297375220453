#include "tensora/backend/cuda/matmul/vector_matmul.h"

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

// Note [A vector times rows]
// x W^T with one row x, and A x with one column x, are the same: every result is the product of x
// with one row of a matrix whose rows are contiguous. Each element of the matrix is used once, so
// what counts is to have many of its bytes in flight. A warp takes a row, and a thread loads kLoads
// times 16 bytes of it before it uses the first; x comes from the caches. The order in which
// a result's products are added depends on k alone. Where there are too few rows to fill the
// device, or rows are not aligned to 16 bytes, the library is better.

constexpr unsigned kWarps = 4;  // per block
constexpr int kLoads = 8;
constexpr int64_t kMinRowBytes = 512, kRowsPerMultiprocessor = 4;

struct VectorParams {
  const char *rows, *vector, *bias;  // bias: or null
  char* out;
  long long row_bytes, out_bytes, bias_bytes;     // strides
  long long rows_batch, vector_batch, out_batch;  // bytes between the matrices of a batch
  unsigned count, groups;                         // rows; loads of 16 bytes per row
  float alpha, beta;
};

template <class T>
__device__ inline void add_products(const uint4& row, const uint4& vector, float (&sums)[4]) {
  constexpr int kElements = 16 / sizeof(T);
  T a[kElements], b[kElements];
  __builtin_memcpy(a, &row, 16);
  __builtin_memcpy(b, &vector, 16);
#pragma unroll
  for (int i = 0; i < kElements; ++i)
    sums[i % 4] = fmaf(load_value<float>(a[i]), load_value<float>(b[i]), sums[i % 4]);
}

template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    vector_times_rows(const __grid_constant__ VectorParams params) {
  const unsigned number = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (number >= params.count) return;
  const auto* const row = reinterpret_cast<const uint4*>(params.rows + number * params.row_bytes +
                                                         blockIdx.y * params.rows_batch);
  const auto* const vector =
      reinterpret_cast<const uint4*>(params.vector + blockIdx.y * params.vector_batch);
  float sums[4] = {};
  unsigned group = lane;
  for (; group + (kLoads - 1) * 32 < params.groups; group += kLoads * 32) {
    uint4 loads[kLoads];
#pragma unroll
    for (unsigned l = 0; l < kLoads; ++l) loads[l] = __ldg(row + group + l * 32);
#pragma unroll
    for (unsigned l = 0; l < kLoads; ++l)
      add_products<T>(loads[l], __ldg(vector + group + l * 32), sums);
  }
  for (; group < params.groups; group += 32)
    add_products<T>(__ldg(row + group), __ldg(vector + group), sums);
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
#pragma unroll
  for (unsigned distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane != 0) return;
  T& out =
      *reinterpret_cast<T*>(params.out + number * params.out_bytes + blockIdx.y * params.out_batch);
  sum *= params.alpha;
  if (params.beta != 0) sum += params.beta * load_value<float>(out);
  if (params.bias)
    sum += load_value<float>(*reinterpret_cast<const T*>(params.bias + number * params.bias_bytes));
  out = store_value<T>(sum);
}

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

}  // namespace

bool vector_matmul(const Matmul& args) {
  const Epilogue& epilogue = args.epilogue;
  const bool plain = epilogue.function == Epilogue::Function::none && !epilogue.aux &&
                     !epilogue.sums_of_out && !epilogue.sums_of_a && !epilogue.sums_of_b;
  const bool one_row = args.m == 1, one_column = args.n == 1;
  if (!plain || one_row == one_column || args.dtype == DType::float64) return false;
  const auto bytes = static_cast<int64_t>(element_size(args.dtype));
  // The side whose rows along k are multiplied by the vector.
  const MatrixBatch &rows = one_row ? args.b : args.a, &vector = one_row ? args.a : args.b;
  const int64_t row_step = one_row ? rows.col_stride : rows.row_stride;
  const int64_t row_inner = one_row ? rows.row_stride : rows.col_stride;
  const int64_t vector_inner = one_row ? vector.col_stride : vector.row_stride;
  const int64_t count = one_row ? args.n : args.m, row_bytes = args.k * bytes;
  const bool readable = row_inner == 1 && vector_inner == 1 && row_bytes % 16 == 0 &&
                        row_step * bytes % 16 == 0 && rows.batch_stride * bytes % 16 == 0 &&
                        vector.batch_stride * bytes % 16 == 0 && is_aligned(rows.data) &&
                        is_aligned(vector.data);
  const int64_t enough = device_info(args.device).multiprocessors * kRowsPerMultiprocessor;
  if (!readable || row_bytes < kMinRowBytes || row_bytes >= int64_t{1} << 31 ||
      count >= int64_t{1} << 31 || count * args.batch < enough || args.batch > 65535)
    return false;
  VectorParams params{};
  params.rows = static_cast<const char*>(rows.data);
  params.vector = static_cast<const char*>(vector.data);
  params.bias = static_cast<const char*>(epilogue.bias);
  params.out = static_cast<char*>(args.out.data);
  params.row_bytes = row_step * bytes;
  params.out_bytes = (one_row ? args.out.col_stride : args.out.row_stride) * bytes;
  params.bias_bytes = one_row ? bytes : 0;  // one number per column
  params.rows_batch = rows.batch_stride * bytes;
  params.vector_batch = vector.batch_stride * bytes;
  params.out_batch = args.out.batch_stride * bytes;
  params.count = static_cast<unsigned>(count);
  params.groups = static_cast<unsigned>(row_bytes / 16);
  params.alpha = static_cast<float>(args.alpha);
  params.beta = static_cast<float>(args.beta);
  const dim3 grid((params.count + kWarps - 1) / kWarps, static_cast<unsigned>(args.batch));
  const Launch launch{args.op, args.device};
  const auto run = [&](auto* kernel) { launch(kernel, grid, dim3(kWarps * 32), params); };
  if (args.dtype == DType::float16)
    run(vector_times_rows<Half>);
  else if (args.dtype == DType::bfloat16)
    run(vector_times_rows<BFloat16>);
  else
    run(vector_times_rows<float>);
  return true;
}

}  // namespace tensora::cuda
