#pragma once

// Internal header: the pass that groups the nodes of a tape into kernels.

#include "tensora/jit/plan.h"

namespace tensora::jit {

// Groups stay open over this many nodes: the longer, the longer their operands stay in memory.
// Shorter where memory would grow.
inline constexpr uint32_t kReaches[] = {64, 16, 4, 0};

/// How far groups may go; see Note [Peak of memory].
struct GroupLimits {
  uint32_t reach = kReaches[0];
  std::vector<bool> barriers = {};  // per node: all groups are closed before it; or empty
  std::vector<bool> alone = {};     // per node: it runs by itself; or empty
};

/// See Note [Groups].
Plan group_nodes(const Tape& tape, PlanOptions options, const Rewrite& rewrite,
                 const GroupLimits& limits);
/// What a node can be in a group; `none` if it runs by itself.
OpForm form_in_group(const Tape& tape, const TapeNode& node);
/// The inputs that a node reads: not those that it overwrites as a whole.
std::span<const Operand> operands_read(const Tape& tape, const TapeNode& node, const OpForm& form);

/// Counts what a launch reads and writes.
void count_bytes(const Tape& tape, Launch& launch);
/// Adds up what the launches move, and finds after which one each memory is not used any more.
void finish_plan(const Tape& tape, Plan& plan);

/// How many groups of this process were fused, for TENSORA_JIT_FUEL; a plan that is not used gives
/// back what it took.
int64_t used_fuel();
void give_back_fuel(int64_t used);

}  // namespace tensora::jit
