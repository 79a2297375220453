#pragma once

// Internal header: random ops as steps of a program.

#include "tensora/base/function_ref.h"
#include "tensora/jit/tile_program.h"

namespace tensora::jit {

/// A random op whose numbers depend on its attributes and on the position of an element, in
/// row-major order, alone. A part of its result can therefore be computed by itself.
struct RandomOp {
  const OpBase* op;
  bool reads;     // its input: a dropout; otherwise it overwrites its input
  int64_t block;  // elements whose numbers come from counters that no other elements use
  /// Calls `body` with attributes that begin at `element`, a multiple of `block`.
  void (*with_start)(const void* attrs, int64_t element, DType dtype,
                     FunctionRef<void(const void* attrs)> body);
};
/// Null if the op is none of them.
const RandomOp* find_random_op(const OpBase& op);

/// The result of a random step on the CPU for the elements from `first` on, as many as `out`, which
/// is contiguous, has. `in` has them in row-major order; null if the op does not read.
void draw(const TileProgram::Step& step, const void* attrs, int64_t first, const View* in,
          const View& out);

}  // namespace tensora::jit
