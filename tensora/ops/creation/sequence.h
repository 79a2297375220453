#pragma once

#include "tensora/core/scalar.h"
#include "tensora/core/tensor_options.h"

namespace tensora {

/// start, start + step, … up to, but not including, `end`. Without a dtype: int64 if all three are
/// integers, else the default dtype.
Tensor arange(Scalar end, const TensorOptions& options = {});
Tensor arange(Scalar start, Scalar end, const TensorOptions& options = {});
Tensor arange(Scalar start, Scalar end, Scalar step, const TensorOptions& options = {});

/// `steps` evenly spaced numbers from `start` to `end`, both included.
Tensor linspace(Scalar start, Scalar end, int64_t steps, const TensorOptions& options = {});
/// base^start … base^end, with evenly spaced exponents.
Tensor logspace(Scalar start, Scalar end, int64_t steps, double base = 10,
                const TensorOptions& options = {});

/// Ones on the main diagonal, zeros elsewhere.
Tensor eye(int64_t n, const TensorOptions& options = {});
Tensor eye(int64_t n, int64_t m, const TensorOptions& options = {});

/// Row and column numbers, as the two rows of an int64 tensor, of the lower (upper) triangle of a
/// `row` x `col` matrix: the elements on and below (above) the diagonal `offset`.
Tensor tril_indices(int64_t row, int64_t col, int64_t offset = 0,
                    const TensorOptions& options = {.dtype = kInt64});
Tensor triu_indices(int64_t row, int64_t col, int64_t offset = 0,
                    const TensorOptions& options = {.dtype = kInt64});

}  // namespace tensora
