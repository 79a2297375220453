#include "tensora/nn/identity.h"

#include "tensora/base/check.h"

namespace tensora::nn {

Functional::Functional(std::function<Tensor(const Tensor&)> function)
    : function_(std::move(function)) {
  check(function_ != nullptr, "Functional: the function is empty");
}

}  // namespace tensora::nn
