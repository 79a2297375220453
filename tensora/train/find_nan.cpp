#include "tensora/train/find_nan.h"

#include "tensora/ops.h"

namespace tensora::train {

bool NanFinder::is_bad(const Tensor& tensor) const {
  if (!tensor.defined() || !tensor.is_floating_point() || tensor.numel() == 0 || tensor.is_meta())
    return false;
  const Tensor values = tensor.detach();
  return any(what_ == What::nan ? isnan(values) : isinf(values)).item<bool>();
}

Tensors NanFinder::intercept(const Call& call) {
  bool spoiled = call.inputs.empty();  // what an op makes of nothing is as it is meant
  for (const Arg& input : call.inputs) spoiled = spoiled || is_bad(*input);
  const Tensors outputs = proceed(call);
  if (spoiled) return outputs;
  const auto look_at = [&](const Tensor& output) {
    check(!is_bad(output), "the op ", call.op.name, " made ",
          what_ == What::nan ? "nan" : "an infinite number",
          " from finite numbers (result of shape ", output.shape(), ")");
  };
  if (call.inplace)
    look_at(*call.inputs[0]);
  else
    for (const Tensor& output : outputs) look_at(output);
  return outputs;
}

}  // namespace tensora::train
