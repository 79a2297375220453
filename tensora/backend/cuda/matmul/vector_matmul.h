#pragma once

#include "tensora/backend/cuda/matmul/matmul.h"

namespace tensora::cuda {

/// A product with a vector, as in a linear layer that generates one token at a time, by a kernel of
/// our own. False, and nothing is queued, where the library does it as well or better: see
/// Note [A vector times rows].
bool vector_matmul(const Matmul& args);

}  // namespace tensora::cuda
