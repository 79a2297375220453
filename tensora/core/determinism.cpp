#include "tensora/core/determinism.h"

#include <atomic>

namespace tensora {
namespace {

std::atomic<bool> deterministic_only = false;

}  // namespace

bool is_deterministic() {
  if (thread_state.deterministic != Override::none)
    return thread_state.deterministic == Override::on;
  return deterministic_only.load(std::memory_order_relaxed);
}

void set_deterministic(bool deterministic) {
  deterministic_only.store(deterministic, std::memory_order_relaxed);
}

}  // namespace tensora
