#include <atomic>

#include "tensora/autograd/engine.h"

namespace tensora {
namespace {

std::atomic<bool> anomaly_enabled{false};

}  // namespace

bool is_anomaly_enabled() {
  if (thread_state.anomaly != Override::none) return thread_state.anomaly == Override::on;
  return anomaly_enabled.load(std::memory_order_relaxed);
}

void set_detect_anomaly(bool enabled) { anomaly_enabled.store(enabled, std::memory_order_relaxed); }

}  // namespace tensora
