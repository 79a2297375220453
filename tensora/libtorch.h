#pragma once

// What <torch/torch.h> gives a program that was written for LibTorch: the namespaces torch, at and
// c10, with LibTorch's modules, optimizers and data sets over Tensora's. Link Tensora::libtorch.
// docs/coming-from-libtorch.md lists what is there and what is not.

#include "tensora/libtorch/autograd.h"
#include "tensora/libtorch/data/chunk.h"
#include "tensora/libtorch/names.h"
#include "tensora/libtorch/nn.h"
#include "tensora/libtorch/optim.h"
#include "tensora/libtorch/serialize.h"

namespace tensora {

/// A node's address, as LibTorch's shared_ptr prints it: `std::cout << y.grad_fn()`.
inline std::ostream& operator<<(std::ostream& stream, const IntrusivePtr<Node>& node) {
  return stream << static_cast<const void*>(node.get());
}

}  // namespace tensora
