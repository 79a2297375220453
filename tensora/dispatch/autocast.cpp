#include "tensora/dispatch/autocast.h"

#include "tensora/core/thread_state.h"

namespace tensora {

autocast::autocast(DType dtype, bool enabled)
    : saved_enabled_(thread_state.autocast_enabled), saved_dtype_(thread_state.autocast_dtype) {
  check(dtype == DType::float16 || dtype == DType::bfloat16,
        "autocast: expected float16 or bfloat16, got ", dtype);
  thread_state.autocast_enabled = enabled;
  thread_state.autocast_dtype = static_cast<uint8_t>(dtype);
}

autocast::~autocast() {
  thread_state.autocast_enabled = saved_enabled_;
  thread_state.autocast_dtype = saved_dtype_;
}

bool autocast_inputs(const OpBase& op, Args inputs, SmallVector<Tensor, 4>& cast) {
  if (op.autocast == Autocast::as_is) return false;
  const DType lower = static_cast<DType>(thread_state.autocast_dtype);
  const DType target = op.autocast == Autocast::lower ? lower : DType::float32;
  // float64 is a deliberate choice of the user and is left alone.
  const auto changes = [&](const Tensor& tensor) {
    return tensor.defined() && tensor.is_floating_point() && tensor.dtype() != target &&
           tensor.dtype() != DType::float64 && !tensor.impl().wrapped_number;
  };
  bool any = false;
  for (const Arg& input : inputs) any |= changes(*input);
  if (!any) return false;
  for (const Arg& input : inputs)
    cast.push_back(changes(*input) ? engine_ops().cast(*input, target, input->device()) : *input);
  return true;
}

}  // namespace tensora
