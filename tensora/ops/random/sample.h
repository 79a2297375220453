#pragma once

#include "tensora/ops/random/random.h"

namespace tensora {

struct MultinomialAttrs {
  uint64_t seed = 0, offset = 0;
  int64_t num_samples = 1;
  bool replacement = false;
};
/// Overwrites its input, a vector, with a permutation. See Note [Shuffling by sorting].
extern OpDef<RandomAttrs> randperm_op;
extern OpDef<MultinomialAttrs> multinomial_op;

/// The integers 0 … n - 1 in random order; int64 unless the options say otherwise.
Tensor randperm(int64_t n, const TensorOptions& options = {});

/// For each row of weights (which need not sum to 1), `num_samples` column numbers drawn by
/// weight; without replacement no column comes twice.
Tensor multinomial(const Tensor& self, int64_t num_samples, bool replacement = false);

}  // namespace tensora
