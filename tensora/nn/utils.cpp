#include "tensora/nn/utils.h"

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/ops/shape/cat.h"

namespace tensora::nn::utils {

Tensor parameters_to_vector(const TensorList& parameters) {
  check(!parameters.empty(), "parameters_to_vector: there are no parameters");
  TensorList parts;
  for (const Tensor& parameter : parameters) parts.push_back(parameter.reshape({-1}));
  return cat(parts);
}

void vector_to_parameters(const Tensor& vector, const TensorList& parameters) {
  int64_t count = 0;
  for (const Tensor& parameter : parameters) count += parameter.numel();
  check(vector.dim() == 1 && vector.numel() == count, "vector_to_parameters: expected a vector of ",
        count, " elements, got shape ", vector.sizes());
  const no_grad scope;
  int64_t first = 0;
  for (const Tensor& parameter : parameters) {
    const Tensor part = vector.narrow(0, first, parameter.numel());
    parameter.copy_(part.reshape(parameter.sizes()));
    first += parameter.numel();
  }
}

}  // namespace tensora::nn::utils
