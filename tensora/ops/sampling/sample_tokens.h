#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// One token for each row of float32 logits (R V): int64 [R]. How they are chosen stands in
/// tensors, so that a recorded call can be replayed with other numbers. `numbers`, float64 [R, 3],
/// has per row temperature (0: the highest logit, of equals the lowest token), top_p (1: off) and
/// min_p (0: off); `integers`, int64 [R, 3], has top_k (from 1 to 1024), a seed, and how many
/// tokens were drawn with that seed before. The steps are top-k, top-p, min-p, temperature. The
/// result depends on a row's own numbers alone, and is the same on every device (Note [Equal tokens
/// everywhere]). It is -1 where a logit is NaN or infinity, or where all are -infinity. No
/// gradient.
Tensor sample_tokens(const Tensor& logits, const Tensor& numbers, const Tensor& integers);

}  // namespace tensora
