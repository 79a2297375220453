#include "tensora/nn/bilinear.h"

#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/nn/repr.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/matrix/products.h"

namespace tensora::nn {

Bilinear::Bilinear(int64_t in1, int64_t in2, int64_t out, BilinearOptions options)
    : in1_features(in1), in2_features(in2), out_features(out) {
  check(in1 > 0 && in2 >= 0 && out >= 0, "Bilinear: expected in1_features above 0 and other sizes ",
        "of at least 0, got ", in1, ", ", in2, " and ", out);
  const TensorOptions made = FactoryScope::current();
  weight = register_parameter("weight", empty({out, in1, in2}, made));
  bias = register_parameter("bias", options.bias ? empty({out}, made) : Tensor());
  reset_parameters();
}

void Bilinear::reset_parameters() {
  const no_grad scope;
  const double bound = 1 / std::sqrt(static_cast<double>(in1_features));
  weight.uniform_(-bound, bound);
  if (bias.defined()) bias.uniform_(-bound, bound);
}

Tensor Bilinear::forward(const Tensor& input1, const Tensor& input2) const {
  return bilinear(input1, input2, weight, bias);
}

std::string Bilinear::extra_repr() const {
  return concat("in1_features=", in1_features, ", in2_features=", in2_features,
                ", out_features=", out_features, ", bias=", repr(bias.defined()));
}

}  // namespace tensora::nn
