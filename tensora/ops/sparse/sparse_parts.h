#pragma once

// Internal header: what ops and the engine do with sparse gradients.

#include "tensora/autograd/sparse_gradient.h"

namespace tensora {

/// The dense form.
Tensor densified(const Tensor& sparse);
/// The entries of both.
Tensor joined_entries(const Tensor& a, const Tensor& b);
/// With each index once, in order: values of equal indices are added.
Tensor coalesced(const Tensor& sparse);

}  // namespace tensora
