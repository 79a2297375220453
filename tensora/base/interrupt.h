#pragma once

#include <atomic>

namespace tensora {

/// Asks the host program whether the computation should go on; throws to end it. Long kernels call
/// it between parts of their work, on every thread that takes part.
using InterruptPoll = void (*)();
/// Null, the default, is never interrupted.
void set_interrupt_poll(InterruptPoll poll);
void poll_interrupt();

/// The parts of one long computation: once a part throws, on whatever thread, no other is begun.
class InterruptibleParts {
 public:
  /// `is_long`: the computation is worth asking for; a short one cannot be interrupted.
  explicit InterruptibleParts(bool is_long) : is_long_(is_long) {}

  /// False if the computation was ended; then the exception is on its way from another thread.
  template <class Part>
  bool run(Part&& part) {
    if (!is_long_) {
      part();
      return true;
    }
    if (stopped_.load(std::memory_order_relaxed)) return false;
    try {
      poll_interrupt();
      part();
    } catch (...) {
      stopped_.store(true, std::memory_order_relaxed);
      throw;
    }
    return true;
  }

 private:
  const bool is_long_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace tensora
