#include "tensora/jit/stats.h"

#include <mutex>

#include "tensora/base/fork.h"
#include "tensora/jit/plan.h"

namespace tensora::jit {
namespace {

/// The totals of the process.
struct Totals {
  Mutex mutex;
  Stats stats;

  Totals() { hold_over_fork(mutex); }
};
constinit MadeOnce<Totals> made;

}  // namespace

Stats stats() {
  Totals& totals = made.get();
  const std::lock_guard lock(totals.mutex);
  return totals.stats;
}

void reset_stats() {
  Totals& totals = made.get();
  const std::lock_guard lock(totals.mutex);
  totals.stats = {};
}

void count_plan_use(const Plan& plan, bool found) {
  uint64_t ops = 0, fused = 0;
  for (const Launch& launch : plan.launches) {
    ops += launch.nodes.size();
    if (launch.kernel) fused += launch.nodes.size();
  }
  Totals& process = made.get();
  const std::lock_guard lock(process.mutex);
  Stats& totals = process.stats;
  ++totals.tapes;
  totals.plans += found ? 0 : 1;
  totals.ops += ops;
  totals.launches += plan.launches.size();
  totals.fused_ops += fused;
  totals.failures += plan.failures.size();
  totals.refusals += plan.refusals.size();
  totals.bytes += static_cast<uint64_t>(plan.bytes);
  totals.eager_bytes += static_cast<uint64_t>(plan.eager_bytes);
}

}  // namespace tensora::jit
