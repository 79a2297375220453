#pragma once

#include "tensora/dispatch/op_def.h"
#include "tensora/ops/creation/sequence_values.h"

namespace tensora {

constexpr auto describe(std::type_identity<Arange>) {
  return fields(field("start", &Arange::start), field("step", &Arange::step));
}
constexpr auto describe(std::type_identity<Linspace>) {
  return fields(field("start", &Linspace::start), field("end", &Linspace::end),
                field("steps", &Linspace::steps));
}
constexpr auto describe(std::type_identity<Logspace>) {
  return fields(field("start", &Logspace::start), field("end", &Logspace::end),
                field("steps", &Logspace::steps), field("base", &Logspace::base));
}
constexpr auto describe(std::type_identity<Eye>) { return fields(field("columns", &Eye::columns)); }
constexpr auto describe(std::type_identity<TriangleIndices>) {
  return fields(field("rows", &TriangleIndices::rows), field("columns", &TriangleIndices::columns),
                field("diagonal", &TriangleIndices::diagonal),
                field("lower", &TriangleIndices::lower));
}
// These ops overwrite their one input, whose shape, dtype and device they keep.
extern OpDef<Arange> arange_op;
extern OpDef<Linspace> linspace_op;
extern OpDef<Logspace> logspace_op;
extern OpDef<Eye> eye_op;
extern OpDef<TriangleIndices> triangle_indices_op;

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
