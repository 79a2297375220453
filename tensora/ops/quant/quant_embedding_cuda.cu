#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/quant/quant_embedding_op.h"
#include "tensora/ops/quant/quant_numbers.cuh"
#include "tensora/ops/quant/quant_results.cuh"

namespace tensora::cuda {
namespace {

// A block of threads unpacks a part of one row; blockIdx.y is the index's number.
constexpr int kPerThread = 4;

template <class Block>
__global__ void __launch_bounds__(kThreads)
    look_up(const long long* indices, const char* weight, int64_t row_bytes, const float* scale,
            float factor, int64_t width, int64_t count, DType dtype, void* out,
            IndexLimits limits) {
  for (int64_t i = blockIdx.y; i < count; i += gridDim.y) {
    const long long index = checked_index(indices[i], limits);
    if (index < 0) continue;
    const float all = scale ? factor * scale[index] : factor;
    const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPerThread;
#pragma unroll
    for (int j = 0; j < kPerThread; ++j)
      if (first + j < width)
        store_number(out, dtype, i * width + first + j,
                     number_of<Block>(weight + index * row_bytes, first + j) * all);
  }
}

void quant_embedding_kernel(const KernelContext& context, const QuantEmbeddingAttrs& attrs) {
  const View &indices = context.input(0), &weight = context.input(1), &out = context.output();
  if (out.numel == 0) return;
  const int device = context.device.index;
  const View* const scale = optional_input(context, 2);
  const int64_t width = weight.sizes[1], each = kThreads * kPerThread;
  const dim3 grid(static_cast<unsigned>((width + each - 1) / each),
                  static_cast<unsigned>(std::min<int64_t>(indices.numel, 65535)));
  const IndexLimits limits = {context.op.data(), device_fault(device), 0, weight.sizes[0], 0};
  visit_weight(weight.dtype, [&]<class Block>() {
    Launch{context.op, device}(look_up<Block>, grid, dim3(kThreads), indices.as<const long long>(),
                               weight.as<const char>(), bytes_of(weight.dtype, width),
                               scale ? scale->as<const float>() : nullptr,
                               static_cast<float>(attrs.factor), width, indices.numel, out.dtype,
                               out.data, limits);
  });
}

}  // namespace

void register_quant_embedding_cuda() {
  quant_embedding_op.set_kernel(DeviceType::cuda, quant_embedding_kernel);
}

}  // namespace tensora::cuda
