#pragma once

#include <cstdint>
#include <string>

namespace tensora::jit {

struct Plan;

/// What lazy scopes and compiled functions of this process did so far.
struct Stats {
  uint64_t tapes = 0;                   // that ran
  uint64_t plans = 0;                   // that were made for them; all other tapes found theirs
  uint64_t followed = 0;                // whose plan was known without a look at the others
  uint64_t ops = 0;                     // on the tapes
  uint64_t launches = 0;                // of kernels that they took
  uint64_t fused_ops = 0;               // of the ops, those that shared a kernel with others
  uint64_t failures = 0;                // groups for which there was no kernel: they ran op by op
  uint64_t refusals = 0;                // ops that did not join the group that made their operand
  uint64_t bytes = 0, eager_bytes = 0;  // that the kernels read and wrote, and would have without
};
Stats stats();
void reset_stats();

/// Internal: what one use of a plan that was found counts as, and adding it to the totals.
Stats counts_of(const Plan& plan);
void count_plan_use(const Stats& counts);

}  // namespace tensora::jit
