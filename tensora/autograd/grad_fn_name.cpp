#include "tensora/autograd/history.h"
#include "tensora/core/print.h"

namespace tensora {

std::string grad_fn_name(const Tensor& tensor) {
  const NodePtr node = tensor.grad_fn();
  return node ? std::string(node->name()) : std::string();
}

}  // namespace tensora
