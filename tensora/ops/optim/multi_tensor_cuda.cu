#include "tensora/ops/optim/step_list.cuh"

namespace tensora::cuda {
namespace {

void adam_list_kernel(const KernelContext& context, const AdamListAttrs& attrs) {
  check_recordable(context, true, attrs.layout);
  step_list<AdamRule>(context, attrs);
}

}  // namespace

void register_multi_tensor_cuda() {
  adam_list_op.set_kernel(DeviceType::cuda, adam_list_kernel);
  sgd_list_op.set_kernel(DeviceType::cuda, step_list<SgdRule, SgdListAttrs>);
}

}  // namespace tensora::cuda
