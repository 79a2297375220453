#include "tensora/nn/activation.h"

#include "tensora/base/check.h"
#include "tensora/nn/init.h"
#include "tensora/nn/repr.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/nn/dropout.h"
#include "tensora/ops/nn/gated.h"
#include "tensora/ops/norm/softmax.h"
#include "tensora/ops/pointwise/functions.h"
#include "tensora/ops/pointwise/variants.h"

namespace tensora::nn {

namespace {

std::string only_inplace(bool inplace) { return inplace ? "inplace=True" : ""; }

}  // namespace

Tensor ReLU::forward(const Tensor& input) const { return inplace ? relu_(input) : relu(input); }
std::string ReLU::extra_repr() const { return only_inplace(inplace); }

Tensor ReLU6::forward(const Tensor& input) const {
  return inplace ? hardtanh_(input, 0, 6) : relu6(input);
}
std::string ReLU6::extra_repr() const { return only_inplace(inplace); }

Tensor SELU::forward(const Tensor& input) const { return inplace ? selu_(input) : selu(input); }
std::string SELU::extra_repr() const { return only_inplace(inplace); }

Tensor SiLU::forward(const Tensor& input) const { return inplace ? silu_(input) : silu(input); }
std::string SiLU::extra_repr() const { return only_inplace(inplace); }

Tensor Mish::forward(const Tensor& input) const { return inplace ? mish_(input) : mish(input); }
std::string Mish::extra_repr() const { return only_inplace(inplace); }

Tensor Hardsigmoid::forward(const Tensor& input) const {
  return inplace ? hardsigmoid_(input) : hardsigmoid(input);
}

Tensor Hardswish::forward(const Tensor& input) const {
  return inplace ? hardswish_(input) : hardswish(input);
}

Tensor Sigmoid::forward(const Tensor& input) const { return sigmoid(input); }

Tensor Tanh::forward(const Tensor& input) const { return tanh(input); }

Tensor LogSigmoid::forward(const Tensor& input) const { return logsigmoid(input); }

Tensor Softsign::forward(const Tensor& input) const { return softsign(input); }

Tensor Tanhshrink::forward(const Tensor& input) const { return tanhshrink(input); }

Tensor ELU::forward(const Tensor& input) const {
  return options.inplace ? elu_(input, options.alpha) : elu(input, options.alpha);
}
std::string ELU::extra_repr() const {
  return concat("alpha=", repr(options.alpha), repr_inplace(options.inplace));
}

Tensor CELU::forward(const Tensor& input) const {
  return options.inplace ? celu_(input, options.alpha) : celu(input, options.alpha);
}
std::string CELU::extra_repr() const {
  return concat("alpha=", repr(options.alpha), repr_inplace(options.inplace));
}

Tensor LeakyReLU::forward(const Tensor& input) const {
  return options.inplace ? leaky_relu_(input, options.negative_slope)
                         : leaky_relu(input, options.negative_slope);
}
std::string LeakyReLU::extra_repr() const {
  return concat("negative_slope=", repr(options.negative_slope), repr_inplace(options.inplace));
}

Tensor RReLU::forward(const Tensor& input) const {
  return options.inplace ? rrelu_(input, options.lower, options.upper, is_training())
                         : rrelu(input, options.lower, options.upper, is_training());
}
std::string RReLU::extra_repr() const {
  return concat("lower=", repr(options.lower), ", upper=", repr(options.upper),
                repr_inplace(options.inplace));
}

Tensor Hardtanh::forward(const Tensor& input) const {
  return options.inplace ? hardtanh_(input, options.min_val, options.max_val)
                         : hardtanh(input, options.min_val, options.max_val);
}
std::string Hardtanh::extra_repr() const {
  return concat("min_val=", repr(options.min_val), ", max_val=", repr(options.max_val),
                repr_inplace(options.inplace));
}

Tensor Softplus::forward(const Tensor& input) const {
  return softplus(input, options.beta, options.threshold);
}
std::string Softplus::extra_repr() const {
  return concat("beta=", repr(options.beta), ", threshold=", repr(options.threshold));
}

Tensor Hardshrink::forward(const Tensor& input) const { return hardshrink(input, options.lambd); }
std::string Hardshrink::extra_repr() const { return concat(repr(options.lambd)); }

Tensor Softshrink::forward(const Tensor& input) const { return softshrink(input, options.lambd); }
std::string Softshrink::extra_repr() const { return concat(repr(options.lambd)); }

Tensor GLU::forward(const Tensor& input) const { return glu(input, options.dim); }
std::string GLU::extra_repr() const { return concat("dim=", options.dim); }

Tensor GELU::forward(const Tensor& input) const { return gelu(input, options.approximate); }
std::string GELU::extra_repr() const { return concat("approximate='", options.approximate, "'"); }

Tensor Threshold::forward(const Tensor& input) const {
  return inplace ? threshold_(input, threshold, value)
                 : tensora::threshold(input, threshold, value);
}
std::string Threshold::extra_repr() const {
  return concat("threshold=", repr(threshold), ", value=", repr(value), repr_inplace(inplace));
}

PReLU::PReLU(PReLUOptions given) : options(given) {
  check(given.num_parameters > 0, "PReLU: expected num_parameters above 0, got ",
        given.num_parameters);
  weight = register_parameter("weight", empty({given.num_parameters}, FactoryScope::current()));
  reset_parameters();
}
void PReLU::reset_parameters() { init::constant_(weight, options.init); }
Tensor PReLU::forward(const Tensor& input) const { return prelu(input, weight); }
std::string PReLU::extra_repr() const { return concat("num_parameters=", options.num_parameters); }

namespace {

// PyTorch's choice for a dim that is not given.
int64_t softmax_dim(std::optional<int64_t> dim, const Tensor& input) {
  return dim.value_or(input.dim() == 0 || input.dim() == 1 || input.dim() == 3 ? 0 : 1);
}

}  // namespace

Tensor Softmax::forward(const Tensor& input) const {
  return softmax(input, softmax_dim(dim, input));
}
std::string Softmax::extra_repr() const { return "dim=" + repr(dim); }

Tensor LogSoftmax::forward(const Tensor& input) const {
  return log_softmax(input, softmax_dim(dim, input));
}
std::string LogSoftmax::extra_repr() const { return "dim=" + repr(dim); }

Tensor Softmin::forward(const Tensor& input) const {
  return softmin(input, softmax_dim(dim, input));
}
std::string Softmin::extra_repr() const { return "dim=" + repr(dim); }

Tensor Softmax2d::forward(const Tensor& input) const {
  check(input.dim() == 3 || input.dim() == 4, "Softmax2d: expected 3D or 4D input, got shape ",
        input.sizes());
  return softmax(input, -3);
}

}  // namespace tensora::nn
