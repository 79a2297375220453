#pragma once

// Internal header: the op behind quant_embedding.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (indices, weight, scale?) -> the indices' sizes and D. All inputs are contiguous.
struct QuantEmbeddingAttrs {
  double factor = 1;
  DType dtype = kFloat32;
};
extern OpDef<QuantEmbeddingAttrs> quant_embedding_op;

}  // namespace tensora
