#include "tensora/base/interrupt.h"

namespace tensora {
namespace {
constinit std::atomic<InterruptPoll> current = nullptr;
}  // namespace

void set_interrupt_poll(InterruptPoll poll) { current.store(poll, std::memory_order_release); }

void poll_interrupt() {
  if (const InterruptPoll poll = current.load(std::memory_order_acquire)) poll();
}

}  // namespace tensora
