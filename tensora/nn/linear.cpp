#include "tensora/nn/linear.h"

#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::nn {

Linear::Linear(int64_t in, int64_t out, LinearOptions options)
    : in_features(in), out_features(out) {
  check(in >= 0 && out >= 0, "Linear: expected sizes of at least 0, got in_features=", in,
        " and out_features=", out);
  const TensorOptions made = FactoryScope::current();
  weight = register_parameter("weight", empty({out, in}, made));
  bias = register_parameter("bias", options.bias ? empty({out}, made) : Tensor());
  reset_parameters();
}

void Linear::reset_parameters() {
  const no_grad scope;
  const double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
  weight.uniform_(-bound, bound);
  if (bias.defined()) bias.uniform_(-bound, bound);
}

Tensor Linear::forward(const Tensor& input) const { return linear(input, weight, bias); }

std::string Linear::extra_repr() const {
  return concat("in_features=", in_features, ", out_features=", out_features,
                ", bias=", bias.defined() ? "True" : "False");
}

}  // namespace tensora::nn
