#include "tensora/backend/cuda/loops/generate.cuh"
#include "tensora/ops/creation/sequence_op.h"

namespace tensora::cuda {
namespace {

template <class Values>
void run_sequence(const KernelContext& context, const Values& values) {
  if (is_floating_point(context.output().dtype))
    generate_sequence<double>(context, values);
  else
    generate_sequence<int64_t>(context, values);
}

template <class Values>
void set(const OpDef<Values>& op) {
  op.set_kernel(DeviceType::cuda, run_sequence<Values>);
}

}  // namespace

void register_sequence_cuda() {
  set(arange_op);
  set(linspace_op);
  set(logspace_op);
  set(eye_op);
  set(triangle_indices_op);
}

}  // namespace tensora::cuda
