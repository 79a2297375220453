#pragma once

// Internal header: how the kernels of a tape are run.

#include <memory>
#include <optional>

#include "tensora/jit/open_group.h"
#include "tensora/jit/passes.h"

namespace tensora::jit {

/// One launch of a plan: a fused kernel, or a node's own.
struct Launch {
  std::vector<uint32_t> nodes;       // one, unless `kernel` is there
  std::vector<uint32_t> again = {};  // that the kernel computes too, and an earlier one computed
  std::optional<PlannedKernel> kernel;
  std::vector<PlannedKernel> list = {};          // further ones, with the same tile
  std::vector<int> releases;                     // memories that no launch after this one uses
  std::vector<int> drops = {};                   // memories that are given up, and made again later
  std::vector<std::pair<int, int>> reuses = {};  // memories that take the memory of another
  int64_t bytes = 0, eager_bytes = 0;  // that it reads and writes, and its nodes one by one would
};

/// An op that did not join the group that made its operand.
struct Refusal {
  uint32_t node;
  std::string reason;
};

struct Plan {
  Rewrite rewrite;
  std::vector<Launch> launches;
  std::vector<Refusal> refusals;
  std::vector<std::string> failures;  // groups for which there is no kernel, with the reason
  int64_t bytes = 0;                  // that the launches read and write
  int64_t eager_bytes = 0;            // that the nodes one by one would
  // The most bytes that tensors of the tape take at a time, here and one node after the other.
  int64_t peak = 0, eager_peak = 0;
  std::string history = {};  // the kernels before passes that changed them, for TENSORA_JIT_DUMP
};

/// What the user asks of plans.
struct PlanOptions {
  Fuse fuse = Fuse::what_pays;
  bool wide = false;  // see JitOptions
  int64_t memory_budget = 0;

  bool operator==(const PlanOptions&) const = default;
};

/// Runs the passes, and groups the nodes that are left into kernels. See Note [Groups].
/// Without `merges`, equal nodes all run.
Plan make_plan(Tape& tape, PlanOptions options, bool merges = true);
/// Values that a kernel computes again instead of loading them. False if there are none. See Note
/// [Store or recompute].
bool recompute_values(const Tape& tape, PlanOptions options, Plan& plan);
/// Small kernels that do the same as one launch. False if there are none. See Note [Lists of
/// kernels].
bool list_kernels(const Tape& tape, Plan& plan);
/// The last pass: results that take the place of operands.
void reuse_memory(const Tape& tape, Plan& plan);
/// One launch per node, in program order: always possible.
Plan make_plain_plan(const Tape& tape);

/// Gives up values while the plan takes more memory than `budget` bytes, and makes them again.
/// False if there are none. See Note [Memory budgets].
bool keep_budget(const Tape& tape, Plan& plan, int64_t budget);

/// The most bytes that tensors made by a plan take at a time, and the launches at which they take
/// more than `most`.
struct MemoryPeak {
  int64_t bytes = 0;
  std::vector<size_t> above = {};
};
MemoryPeak peak_of(const Tape& tape, const Plan& plan, int64_t most = 0);
/// The same for the nodes in program order, as eager execution runs them.
int64_t peak_op_by_op(const Tape& tape);

/// The plan for a tape, from the cache if an equal tape was planned before. The plan's merges are
/// then in the tape.
struct FoundPlan {
  std::shared_ptr<const Plan> plan;
  bool is_new = false;   // it was made just now
  bool repeats = false;  // it serves the next equal tape too, and there may well be one
};
FoundPlan find_plan(Tape& tape, PlanOptions options);

/// Runs a tape by a plan that was made for an equal one. `seconds`, if given, gets the time of
/// every launch, for which the device is waited for.
void run(Tape& tape, const Plan& plan, std::vector<double>* seconds = nullptr);

/// One line per launch and one per refusal. `seconds` has the time of every launch, `lines` the
/// user's line of every node, or nothing.
std::string to_string(const Plan& plan, const Tape& tape, std::span<const double> seconds = {},
                      std::span<const std::string> lines = {});

/// TENSORA_JIT_DUMP names a folder: every new plan is written to a file there, with the tape as it
/// was recorded and after each pass, the programs of its kernels and what they became.
bool is_dumped();
void dump(const Plan& plan, const Tape& tape, std::string_view recorded);
/// One line per node: "%4 = add(%0, %2, alpha=1) : float32 [4, 5]", where the numbers are memories.
std::string to_string(const Tape& tape, const Rewrite* rewrite = nullptr);

}  // namespace tensora::jit
