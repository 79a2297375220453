#include "tensora/jit/stats.h"

#include <mutex>

#include "tensora/jit/plan.h"

namespace tensora::jit {
namespace {

std::mutex mutex;
Stats totals;

}  // namespace

Stats stats() {
  const std::lock_guard lock(mutex);
  return totals;
}

void reset_stats() {
  const std::lock_guard lock(mutex);
  totals = {};
}

void count_plan_use(const Plan& plan, bool found) {
  uint64_t ops = 0, fused = 0;
  for (const Launch& launch : plan.launches) {
    ops += launch.nodes.size();
    if (launch.kernel) fused += launch.nodes.size();
  }
  const std::lock_guard lock(mutex);
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
