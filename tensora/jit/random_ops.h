#pragma once

// Internal header: random ops as steps of a program.

#include "tensora/base/function_ref.h"
#include "tensora/jit/tile_program.h"

namespace tensora::jit {

/// A random op whose numbers depend on its attributes and on the position of an element, in
/// row-major order, alone. A part of them can therefore be drawn by itself.
struct RandomOp {
  const OpBase* op;
  bool scales;  // multiplies its input by the numbers; otherwise they overwrite it
  /// Whether attributes leave it at that.
  bool (*fits)(const void* attrs);
  /// Calls `body` with attributes that begin at `element`, a multiple of kRandomBlock.
  void (*with_start)(const void* attrs, int64_t element, DType dtype,
                     FunctionRef<void(const void* attrs)> body);
};
/// Null if the op is none of them.
const RandomOp* find_random_op(const OpBase& op);

/// Elements whose numbers come from counters that no other elements use. See Note [Lanes] in
/// core/philox.h.
inline constexpr int64_t kRandomBlock = 128;

/// The numbers of a random step for elements [first, first + count), on the CPU.
void draw(const TileProgram::Step& step, const void* attrs, int64_t first, int64_t count, void* to);

}  // namespace tensora::jit
