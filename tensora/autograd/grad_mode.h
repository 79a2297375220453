#pragma once

#include "tensora/core/thread_state.h"

namespace tensora {

inline bool is_grad_enabled() { return thread_state.grad_enabled; }
inline bool is_inference_mode() { return thread_state.inference_mode; }

/// Restores one thread-local switch at the end of a scope.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled) : saved_(thread_state.grad_enabled) {
    thread_state.grad_enabled = enabled;
  }
  ~GradModeGuard() { thread_state.grad_enabled = saved_; }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool saved_;
};

/// Ops in the scope record no graph: `{ no_grad guard; … }`.
struct no_grad : GradModeGuard {
  no_grad() : GradModeGuard(false) {}
};

/// Records again inside a no_grad scope.
struct enable_grad : GradModeGuard {
  enable_grad() : GradModeGuard(true) {}
};

/// Like no_grad, and the tensors made here can never enter a graph, which saves bookkeeping.
/// `false` leaves the mode for a scope, and records again.
class inference_mode {
 public:
  explicit inference_mode(bool enabled = true)
      : grad_(!enabled), saved_(thread_state.inference_mode) {
    thread_state.inference_mode = enabled;
  }
  ~inference_mode() { thread_state.inference_mode = saved_; }

 private:
  GradModeGuard grad_;
  bool saved_;
};

}  // namespace tensora
