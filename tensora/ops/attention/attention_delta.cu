#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_elements.cuh"

namespace tensora::cuda {
namespace {

template <class C>
__device__ void store_delta(const AttentionCall& call, int64_t batch, int64_t head, int64_t row,
                            C sum) {
  if (call.grad_logarithms) {
    const int64_t* const strides = call.grad_logarithms_strides;
    sum -= static_cast<const C*>(
        call.grad_logarithms)[batch * strides[0] + head * strides[1] + row * strides[2]];
  }
  static_cast<C*>(call.delta)[(batch * call.heads + head) * call.queries + row] = sum;
}

// A warp per row.
template <class C>
__global__ void __launch_bounds__(kThreads) row_dots(const AttentionCall call, int64_t lines) {
  const int64_t line = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  if (line >= lines) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = line % call.queries, head = line / call.queries % call.heads,
                batch = line / call.queries / call.heads;
  const auto at = [&](const Array4& array, int col) {
    return load_at<C>(array.data,
                      batch * array.strides[0] + head * array.strides[1] + row * array.strides[2] +
                          col * array.strides[3],
                      array.element);
  };
  C sum = 0;
  for (int col = lane; col < call.value_size; col += 32)
    sum += at(call.grad, col) * at(call.result, col);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
  if (lane == 0) store_delta(call, batch, head, row, sum);
}

// Rows of 16-bit elements, 16 bytes per lane and `lanes` lanes per row. Fewer than 2^31 rows:
// divisions of 64 bits would take longer than the loads.
template <class T, int lanes>
__global__ void __launch_bounds__(kThreads)
    row_dots_in_chunks(const AttentionCall call, unsigned lines) {
  const unsigned line = blockIdx.x * (kThreads / lanes) + threadIdx.x / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const bool inside = line < lines;  // all lanes take part in the shuffles
  const unsigned queries = static_cast<unsigned>(call.queries), of_head = line / queries;
  const unsigned heads = static_cast<unsigned>(call.heads);
  const int64_t row = line - of_head * queries, head = of_head % heads, batch = of_head / heads;
  const auto address = [&](const Array4& array, int col) {
    return array.data +
           (batch * array.strides[0] + head * array.strides[1] + row * array.strides[2] + col) * 2;
  };
  float sum = 0;
  for (int col = lane * 8; inside && col < call.value_size; col += lanes * 8) {
    float a[8], b[8];
    load_pack<T>(address(call.grad, col), a);
    load_pack<T>(address(call.result, col), b);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += a[i] * b[i];
  }
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, step);
  if (inside && lane == 0) store_delta(call, batch, head, row, sum);
}

bool fits_chunks(const Array4& array, int size) {
  bool fits =
      array.strides[3] == 1 && size % 8 == 0 && reinterpret_cast<uintptr_t>(array.data) % 16 == 0;
  for (int d = 0; d < 3; ++d) fits &= array.strides[d] % 8 == 0;
  return fits;
}

template <class T>
void launch_chunks(std::string_view op, int device, const AttentionCall& call, int64_t lines) {
  const auto launch = [&]<int lanes>() {
    constexpr int kLines = kThreads / lanes;
    Launch{op, device}(row_dots_in_chunks<T, lanes>,
                       dim3(grid_of(op, (lines + kLines - 1) / kLines)), dim3(kThreads), call,
                       static_cast<unsigned>(lines));
  };
  call.value_size <= 64 ? launch.template operator()<8>() : launch.template operator()<16>();
}

}  // namespace

void attention_delta(std::string_view op, int device, const AttentionCall& call) {
  const int64_t lines = (call.starts_q ? 1 : call.sequences) * call.heads * call.queries;
  const Element element = call.query.element;
  const bool half = element == Element::bfloat16 || element == Element::float16;
  if (half && lines < int64_t{1} << 31 && fits_chunks(call.grad, call.value_size) &&
      fits_chunks(call.result, call.value_size))
    return element == Element::bfloat16 ? launch_chunks<BFloat16>(op, device, call, lines)
                                        : launch_chunks<Half>(op, device, call, lines);
  with_compute_type(call, [&]<class C>() {
    constexpr int kLines = kThreads / 32;
    Launch{op, device}(row_dots<C>, dim3(grid_of(op, (lines + kLines - 1) / kLines)),
                       dim3(kThreads), call, lines);
  });
}

}  // namespace tensora::cuda
