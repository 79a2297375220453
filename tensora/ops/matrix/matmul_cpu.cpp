#include "tensora/ops/matrix/matmul.h"

#include "tensora/backend/cpu/copy.h"
#include "tensora/backend/cpu/gemm.h"
#include "tensora/ops/matrix/addmm.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// A view's batch dims, broadcast to those of the result, as strides.
Strides batch_strides(const View& view, const Shape& batch) {
  Shape sizes = view.sizes;
  Strides strides = view.strides;
  sizes.resize(view.dim() - 2);
  strides.resize(view.dim() - 2);
  return broadcast_strides(sizes, strides, batch);
}

template <class T>
MatrixBatch<T> matrices(const View& view, int64_t offset, int64_t batch_stride) {
  return {view.as<T>() + offset, batch_stride, view.strides[view.dim() - 2],
          view.strides[view.dim() - 1]};
}

// out = alpha * a @ b + beta * out. The innermost batch dim goes to the library as its batch;
// further ones are looped over, unless all of them together have one stride.
template <class T>
void multiply(const View& a, const View& b, const View& out, double alpha, double beta) {
  Shape batch = out.sizes;
  batch.resize(out.dim() - 2);
  Strides a_steps = batch_strides(a, batch), b_steps = batch_strides(b, batch),
          out_steps = batch_strides(out, batch);
  // Merges adjacent batch dims where the strides of every operand allow it.
  for (int d = batch.size() - 1; d > 0; --d) {
    const bool joins = a_steps[d - 1] == a_steps[d] * batch[d] &&
                       b_steps[d - 1] == b_steps[d] * batch[d] &&
                       out_steps[d - 1] == out_steps[d] * batch[d];
    if (!joins) continue;
    batch[d - 1] *= batch[d];
    for (Strides* steps : {&a_steps, &b_steps, &out_steps}) {
      (*steps)[d - 1] = (*steps)[d];
      steps->erase(d);
    }
    batch.erase(d);
  }
  const int inner = batch.size() - 1;
  int64_t outer_count = 1;
  for (int d = 0; d < inner; ++d) outer_count *= batch[d];
  for (int64_t outer = 0; outer < outer_count; ++outer) {
    int64_t rest = outer, a_at = 0, b_at = 0, out_at = 0;
    for (int d = inner - 1; d >= 0; --d) {
      const int64_t index = rest % batch[d];
      rest /= batch[d];
      a_at += index * a_steps[d];
      b_at += index * b_steps[d];
      out_at += index * out_steps[d];
    }
    gemm(Gemm<T>{.batch = inner < 0 ? 1 : batch[inner],
                 .m = out.sizes[out.dim() - 2],
                 .n = out.sizes[out.dim() - 1],
                 .k = a.sizes[a.dim() - 1],
                 .a = matrices<const T>(a, a_at, inner < 0 ? 0 : a_steps[inner]),
                 .b = matrices<const T>(b, b_at, inner < 0 ? 0 : b_steps[inner]),
                 .out = matrices<T>(out, out_at, inner < 0 ? 0 : out_steps[inner]),
                 .alpha = alpha,
                 .beta = beta});
  }
}

void multiply_any(const View& a, const View& b, const View& out, double alpha, double beta) {
  if (out.numel == 0) return;
  visit_dtype(out.dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) multiply<T>(a, b, out, alpha, beta);
  });
}

void matmul_kernel(const KernelContext& context, const NoAttrs&) {
  multiply_any(context.input(0), context.input(1), context.output(), 1, 0);
}

void addmm_kernel(const KernelContext& context, const AddmmAttrs& attrs) {
  const View &input = context.input(0), &out = context.output();
  const double beta = attrs.beta.to<double>();
  // With beta 0 the input is not read at all: its NaNs do not matter.
  if (beta != 0 && input.data != out.data) copy_elements(input, out);
  multiply_any(context.input(1), context.input(2), out, attrs.alpha.to<double>(), beta);
}

}  // namespace

void register_matmul_cpu() {
  matmul_op.set_kernel(DeviceType::cpu, matmul_kernel);
  addmm_op.set_kernel(DeviceType::cpu, addmm_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
