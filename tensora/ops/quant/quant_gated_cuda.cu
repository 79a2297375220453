#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/quant/quant_gated_op.h"
#include "tensora/ops/quant/quant_results.cuh"

namespace tensora::cuda {
namespace {

// Weights of two dtypes are multiplied one after the other.
__global__ void __launch_bounds__(kThreads)
    multiply_gates(const float* products, char* out, DType dtype, RowsCall::Gate gate,
                   int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) store_number(out, dtype, i, activated(products[i], gate) * products[count + i]);
}

void gate_apart(const KernelContext& context, const RowsCall& call) {
  const int device = context.device.index;
  const int64_t count = int64_t{call.rows} * call.columns;
  const Scratch products(device, static_cast<size_t>(count) * 8);
  for (int i = 0; i < 2; ++i) {
    RowsCall one = call;
    one.gate = RowsCall::Gate::none;
    one.out = products.data() + i * count * 4;
    one.out_dtype = DType::float32;
    RowsWeight& weight = one.weights[0];
    const DType dtype = context.input(static_cast<size_t>(1 + i)).dtype;
    if (i == 1) weight.data = weight.up, weight.scale = weight.up_scale;
    weight.up = nullptr;
    weight.row_bytes = bytes_of(dtype, call.k);
    multiply_rows_by(context.op, device, dtype, one);
  }
  const int64_t groups = (count + kThreads - 1) / kThreads;
  check(groups < int64_t{1} << 31, context.op, ": too many elements for one launch");
  Launch{context.op, device}(multiply_gates, dim3(static_cast<unsigned>(groups)), dim3(kThreads),
                             reinterpret_cast<const float*>(products.data()), call.out,
                             call.out_dtype, call.gate, count);
}

void quant_gated_kernel(const KernelContext& context, const QuantGatedAttrs& attrs) {
  const View &x = context.input(0), &gate = context.input(1), &up = context.input(2),
             &out = context.output();
  if (out.numel == 0) return;
  RowsCall call;
  call.x = x.as<const char>();
  call.x_dtype = x.dtype;
  call.out = out.as<char>();
  call.out_dtype = out.dtype;
  call.k = static_cast<int>(x.sizes.back());
  call.columns = static_cast<int>(out.sizes.back());
  call.rows = static_cast<int>(out.numel / out.sizes.back());
  call.gate =
      attrs.activation == Activation::silu ? RowsCall::Gate::silu : RowsCall::Gate::gelu_tanh;
  if (const View* norm = optional_input(context, QuantGatedAttrs::kNorm)) {
    call.norm = norm->as<const float>();
    call.eps = static_cast<float>(attrs.eps);
  }
  const View* const gate_scale = optional_input(context, 3);
  const View* const up_scale = optional_input(context, 4);
  call.count = 1;
  call.weights[0] = {.data = gate.as<const char>(),
                     .up = up.as<const char>(),
                     .scale = gate_scale ? gate_scale->as<const float>() : nullptr,
                     .up_scale = up_scale ? up_scale->as<const float>() : nullptr,
                     .row_bytes = bytes_of(gate.dtype, call.k),
                     .rows = call.columns};
  if (gate.dtype == up.dtype)
    multiply_rows_by(context.op, context.device.index, gate.dtype, call);
  else
    gate_apart(context, call);
}

}  // namespace

void register_quant_gated_cuda() {
  quant_gated_op.set_kernel(DeviceType::cuda, quant_gated_kernel);
}

}  // namespace tensora::cuda
