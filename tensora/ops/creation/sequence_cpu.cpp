#include "tensora/backend/cpu/generate.h"
#include "tensora/ops/creation/sequence_op.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class Values>
void sequence_kernel(const KernelContext& context, const Values& values) {
  const View& out = context.output();
  if (is_floating_point(out.dtype))
    run_generate(out, generate_tile<Values, double>, kFloat64, &values);
  else
    run_generate(out, generate_tile<Values, int64_t>, kInt64, &values);
}

template <class Values>
void set(const OpDef<Values>& op) {
  op.set_kernel(DeviceType::cpu, sequence_kernel<Values>);
}

}  // namespace

void register_sequence_cpu() {
  set(arange_op);
  set(linspace_op);
  set(logspace_op);
  set(eye_op);
  set(triangle_indices_op);
}

}  // namespace tensora::cpu::TENSORA_ISA
