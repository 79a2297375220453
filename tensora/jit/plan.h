#pragma once

// Internal header: how the kernels of a tape are run.

#include <memory>
#include <optional>

#include "tensora/jit/open_group.h"

namespace tensora::jit {

/// One launch of a plan: a fused kernel, or a node's own.
struct Launch {
  std::vector<uint32_t> nodes;  // one, unless `kernel` is there
  std::optional<PlannedKernel> kernel;
  std::vector<int> releases;  // memories that no launch after this one uses
};

/// An op that did not join the group that made its operand.
struct Refusal {
  uint32_t node;
  std::string reason;
};

struct Plan {
  std::vector<Launch> launches;
  std::vector<Refusal> refusals;
  std::vector<std::string> failures;  // groups for which there is no kernel, with the reason
  int64_t bytes = 0;                  // that the launches read and write
  int64_t eager_bytes = 0;            // that the nodes one by one would
};

/// Groups the nodes of a tape into kernels. See Note [Groups].
Plan make_plan(const Tape& tape, Fuse fuse);
/// One launch per node, in program order: always possible.
Plan make_plain_plan(const Tape& tape);

/// The plan for a tape, from the cache if an equal tape was planned before; otherwise `planned`
/// becomes true.
std::shared_ptr<const Plan> find_plan(const Tape& tape, Fuse fuse, bool& planned);

/// Runs a tape by a plan that was made for an equal one.
void run(Tape& tape, const Plan& plan);

/// One line per launch and one per refusal.
std::string to_string(const Plan& plan, const Tape& tape);

}  // namespace tensora::jit
