#pragma once

// Internal header: PyTorch's random numbers on the CPU, for programs that expect the results of a
// seed that they were published with. Off unless a program asks for it.

#include "tensora/core/tensor.h"
#include "tensora/ops/random/distributions_values.h"
#include "tensora/ops/random/random_values.h"

namespace tensora {

/// From now on, random ops on the CPU give the numbers that PyTorch gives for the same seed, up to
/// the last digits of logarithms and cosines. They are drawn one after the other, so filling a
/// tensor takes longer. Other devices keep their numbers. For the whole process.
void use_pytorch_numbers(bool on);
bool uses_pytorch_numbers();
/// Whether the numbers of this tensor are PyTorch's.
bool has_pytorch_numbers(const Tensor& like);

// Internal: the numbers for a tensor of this shape and memory layout, drawn from the current
// generator; float32, float64 or int64.
Tensor pytorch_numbers(const Tensor& like, const Uniform& distribution);
Tensor pytorch_numbers(const Tensor& like, const Normal& distribution);
Tensor pytorch_numbers(const Tensor& like, const Exponential& distribution);
Tensor pytorch_numbers(const Tensor& like, const Bernoulli& distribution);
Tensor pytorch_numbers(const Tensor& like, const RandomInteger& distribution);
Tensor pytorch_numbers(const Tensor& like, const Cauchy& distribution);
Tensor pytorch_numbers(const Tensor& like, const LogNormal& distribution);
Tensor pytorch_numbers(const Tensor& like, const Geometric& distribution);
/// Bernoulli with a probability per element.
Tensor pytorch_bernoulli(const Tensor& like, const Tensor& p);
/// 0 … n - 1 in random order, as int64.
Tensor pytorch_permutation(int64_t n);
/// Numbers of categories with these weights, as multinomial gives them.
Tensor pytorch_multinomial(const Tensor& weights, int64_t num_samples, bool replacement);

}  // namespace tensora
