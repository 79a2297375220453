#include "tensora/backend/cpu/pointwise.h"
#include "tensora/core/fit_scalar.h"
#include "tensora/ops/copy/fill.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

struct Constant {
  static constexpr int arity = 0;
  Scalar value;
};

template <class C>
void fill_tile(const void* functor, int64_t n, void* out, const void* const*) {
  const C value = static_cast<const Constant*>(functor)->value.to<C>();
  C* const target = static_cast<C*>(out);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) target[i] = value;
}

void fill_kernel(const KernelContext& context, const FillAttrs& attrs) {
  static constexpr Tiles tiles{fill_tile<float>,          fill_tile<double>,
                               fill_tile<int32_t>,        fill_tile<int64_t>,
                               fill_tile<Complex<float>>, fill_tile<Complex<double>>};
  const Constant constant{fit_scalar(attrs.value, context.output().dtype, context.op)};
  KernelContext no_inputs = context;
  no_inputs.in = {};
  no_inputs.compute_dtype = context.output().dtype;
  run_pointwise(no_inputs, tiles, &constant);
}

}  // namespace

void register_fill_cpu() { fill_op.set_kernel(DeviceType::cpu, fill_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
