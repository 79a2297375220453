#pragma once

// Internal header: what the plan of a tape depends on.

#include "tensora/jit/tape.h"

namespace tensora::jit {

using PlanKey = std::vector<uint64_t>;

/// Whether plans may depend on the attributes of such an op. Those of pointwise and random ops are
/// parameters of the kernel.
inline bool plans_read_attrs(const OpBase& op, size_t inputs) {
  return !op.pointwise && !op.random && inputs != 0;
}
/// Adds what plans depend on of a node's attributes to a key.
void add_attrs(PlanKey& key, const TapeNode& node, const Operand& first, const void* attrs);
/// Whether a plan that was made for a node with attributes `a` serves it with `b`.
bool serves_attrs(const TapeNode& node, const Operand& first, const void* a, const void* b);
/// Whether two storages of a tape lie over one memory: a plan would not see that they depend on
/// each other.
bool storages_overlap(const Tape& tape);

}  // namespace tensora::jit
