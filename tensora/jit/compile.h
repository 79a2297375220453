#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <mutex>
#include <type_traits>

#include "tensora/jit/lazy.h"

namespace tensora {

namespace jit {

/// What the calls of a compiled function did.
struct Report {
  std::mutex mutex;
  uint64_t calls = 0, pieces = 0, plans = 0, ops = 0, launches = 0;
  bool describes = false;  // every piece is described in `description`
  std::string description;
};

/// What `explain` prints after the pieces of a call.
std::string summary(const std::string& name, Report& report);

}  // namespace jit

/// A function whose kernels are deferred and fused while it runs; see `compile`. A handle: copies
/// share the statistics.
template <class Function>
class CompiledFunction {
 public:
  CompiledFunction(Function function, JitOptions options)
      : state_(std::make_shared<State>(std::move(function), std::move(options))) {}

  /// Calls the function. Its results are complete when it returns.
  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    {
      const std::lock_guard lock(state_->report.mutex);
      ++state_->report.calls;
    }
    return run(state_->report, std::forward<Arguments>(arguments)...);
  }

  /// Calls the function, with all its effects, and says what ran: one line per kernel with its
  /// class, shape and ops, the ops that were not fused and why, and what ended each piece.
  template <class... Arguments>
  std::string explain(Arguments&&... arguments) const {
    jit::Report report;
    report.describes = true;
    static_cast<void>(run(report, std::forward<Arguments>(arguments)...));
    return report.description + jit::summary(state_->options.name, report);
  }

 private:
  struct State {
    State(Function f, JitOptions o) : function(std::move(f)), options(std::move(o)) {}
    Function function;
    JitOptions options;
    jit::Report report;
  };

  template <class... Arguments>
  auto run(jit::Report& report, Arguments&&... arguments) const {
    const LazyScope scope(state_->options, &report);
    if constexpr (std::is_void_v<std::invoke_result_t<Function&, Arguments...>>) {
      std::invoke(state_->function, std::forward<Arguments>(arguments)...);
      scope.flush();
    } else {
      auto result = std::invoke(state_->function, std::forward<Arguments>(arguments)...);
      scope.flush();
      return result;
    }
  }

  std::shared_ptr<State> state_;
};

/// Makes a function whose ops run as few kernels, on the CPU and on CUDA:
/// `auto step = compile([&](const Tensor& x, const Tensor& y) { ... loss.backward(); ... });`.
///
/// The function's body runs at every call, as always: branches, counters, learning rates,
/// attributes and captured tensors act as in eager execution, and nothing can be out of date. Only
/// the kernels are deferred, to the end of the call or to where a value is read, and planned as one
/// piece. The plan of a piece is kept and found again when the same ops on the same shapes come, in
/// any function; sizes are parameters of the kernels, so that new shapes compile nothing.
/// Gradients, random numbers, rounding of pointwise ops and errors are those of eager execution
/// (docs/jit.md has details). Reductions inside a fused kernel may add in another order.
template <class Function>
CompiledFunction<std::decay_t<Function>> compile(Function&& function, JitOptions options = {}) {
  return {std::forward<Function>(function), std::move(options)};
}

}  // namespace tensora
