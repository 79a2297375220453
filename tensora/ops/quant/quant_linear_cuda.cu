#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/quant/few_rows.h"
#include "tensora/ops/quant/quant_linear_op.h"

namespace tensora::cuda {
namespace {

using A = QuantLinearAttrs;

RowsCall call_of(const KernelContext& context, const A& attrs) {
  const View &x = context.input(0), &out = context.output();
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t k = x.sizes.back(), columns = out.sizes.back();
  check(k < kMost && columns < kMost && x.numel < kMost * std::max<int64_t>(k, 1), context.op,
        ": at most 2^31 rows and columns fit on cuda");
  RowsCall call;
  call.x = x.as<const char>();
  call.x_dtype = x.dtype;
  call.out = out.as<char>();
  call.out_dtype = out.dtype;
  call.k = static_cast<int>(k);
  call.columns = static_cast<int>(columns);
  call.rows = static_cast<int>(columns == 0 ? 0 : out.numel / columns);
  if (const View* norm = optional_input(context, A::kNorm)) {
    call.norm = norm->as<const float>();
    call.eps = static_cast<float>(attrs.eps);
  }
  if (const View* bias = optional_input(context, A::kBias)) {
    call.bias = bias->data;
    call.bias_dtype = bias->dtype;
  }
  if (const View* residual = optional_input(context, A::kResidual)) {
    call.residual = residual->data;
    call.residual_dtype = residual->dtype;
  }
  return call;
}

// Weights of one dtype that follow each other share a launch.
void quant_linear_kernel(const KernelContext& context, const A& attrs) {
  RowsCall call = call_of(context, attrs);
  DType dtype = DType::float32;
  int column = 0;
  const auto run = [&](bool is_last) {
    if (call.count == 0) return;
    call.begins_late = call.rows == 1 && !is_last;
    const bool few = multiply_rows_by(context.op, context.device.index, dtype, call);
    call.joins = call.begins_late && few;
    call.count = 0;
  };
  for (size_t i = 0; i < A::kMostWeights; ++i) {
    const View* const weight = optional_input(context, A::kWeight + i);
    if (!weight) continue;
    if (weight->dtype != dtype) run(false);
    dtype = weight->dtype;
    const View* const scale = optional_input(context, A::kScale + i);
    const auto rows = static_cast<int>(weight->sizes[0]);
    if (rows == 0) continue;
    call.weights[call.count++] = {.data = weight->as<const char>(),
                                  .scale = scale ? scale->as<const float>() : nullptr,
                                  .row_bytes = bytes_of(dtype, call.k),
                                  .rows = rows,
                                  .column = column};
    column += rows;
  }
  run(true);
}

}  // namespace

void register_quant_linear_cuda() {
  quant_linear_op.set_kernel(DeviceType::cuda, quant_linear_kernel);
}

}  // namespace tensora::cuda
