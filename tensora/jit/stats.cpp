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

Stats counts_of(const Plan& plan) {
  Stats counts;
  counts.tapes = 1;
  for (const Launch& launch : plan.launches) {
    counts.ops += launch.nodes.size();
    if (launch.kernel) counts.fused_ops += launch.nodes.size();
  }
  counts.launches = plan.launches.size();
  counts.failures = plan.failures.size();
  counts.refusals = plan.refusals.size();
  counts.bytes = static_cast<uint64_t>(plan.bytes);
  counts.eager_bytes = static_cast<uint64_t>(plan.eager_bytes);
  return counts;
}

void count_plan_use(const Stats& counts) {
  Totals& process = made.get();
  const std::lock_guard lock(process.mutex);
  Stats& totals = process.stats;
  totals.tapes += counts.tapes;
  totals.plans += counts.plans;
  totals.followed += counts.followed;
  totals.ops += counts.ops;
  totals.launches += counts.launches;
  totals.fused_ops += counts.fused_ops;
  totals.failures += counts.failures;
  totals.refusals += counts.refusals;
  totals.bytes += counts.bytes;
  totals.eager_bytes += counts.eager_bytes;
}

}  // namespace tensora::jit
