#pragma once

// Internal header: the ops that programs of rows consist of, apart from pointwise ones.

#include "tensora/jit/tile_program.h"

namespace tensora::jit {

/// A reduction of rows, or an op that maps rows to rows.
struct RowOp {
  const OpBase* op;
  OpForm::Kind form;  // reduce or row
  int outputs;        // of the op; output 0 has the row's extent, the others have one per row
  /// The functor of core/reduction.h, as C++ over the compute type C; null for row ops and for
  /// reductions that are expanded.
  const char* functor;
  /// Adds steps that do the same with pointwise steps and reductions, for devices that generate
  /// code. `step` is the step to be replaced, with its operands numbered as in `to`; returns the
  /// values of its outputs. Null if there is a functor.
  std::vector<int> (*expand)(TileProgram& to, const TileProgram::Step& step);
};
/// Null if the op is none of them.
const RowOp* find_row_op(const OpBase& op);

/// The attributes of a row op for rows of `length` elements that are the last of the array's dims:
/// `dim`, `keepdim` and `normalized_shape` are changed accordingly.
AttrsCopy row_attrs(const OpBase& op, const void* attrs, int64_t length);

/// The attributes that do not follow from the row's place, for keys and for printing.
std::vector<std::pair<std::string_view, AttrValue>> free_attrs(const OpBase& op, const void* attrs);

/// The same program without the row ops that can be expanded. `origins`, if given, gets the step
/// that each step came from; -1: it is part of an expansion.
TileProgram expanded(const TileProgram& program, std::vector<int>* origins = nullptr);

}  // namespace tensora::jit
