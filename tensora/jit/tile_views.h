#pragma once

// Internal header: how the CPU looks at a program's arrays.

#include "tensora/jit/tile_kernel.h"

namespace tensora::jit {

/// Copies with cast and broadcast.
void copy_view(const View& from, const View& to, Device device = {});

/// A number as an element of a dtype, in `to`.
void write_number(Scalar number, DType dtype, void* to);

/// Runs the op of a pointwise, cast, reduce or row step. `in` has one view per operand,
/// null where it was left out; the last dim of the views of a row op is the row.
void run_op(const TileProgram::Step& step, const void* attrs, std::span<const View* const> in,
            std::span<const View* const> out, Device device = {});

/// Views with which an op of rows sees its operands: a weight, which is repeated for every row, is
/// one row.
bool sees_weights(const TileProgram::Step& step);
View as_weight(const View& view);

}  // namespace tensora::jit
