#pragma once

// Internal header: the op behind sample_tokens.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (logits, numbers, integers) -> tokens. All inputs are contiguous.
struct SampleTokensAttrs {
  enum Number { kTemperature, kTopP, kMinP, kNumbers };
  enum Integer { kTopK, kSeed, kDraw, kIntegers };
};
extern OpDef<SampleTokensAttrs> sample_tokens_op;

}  // namespace tensora
