#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <mutex>
#include <type_traits>

#include "tensora/jit/function_lock.h"
#include "tensora/jit/replay.h"

namespace tensora {

namespace jit {

/// What the calls of a compiled function did.
struct Report {
  Mutex& mutex = function_lock(reinterpret_cast<uintptr_t>(this));
  uint64_t calls = 0, pieces = 0, plans = 0, ops = 0, launches = 0;
  bool describes = false;  // every piece is described in `description`
  bool times = false;      // with the time of every kernel
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
    if constexpr (kCanReplay<Arguments...>) {
      if (state_->replay && jit::Replay::is_possible())
        return replay(std::forward<Arguments>(arguments)...);
    } else {
      check(!state_->replay,
            "compile: a function with replay takes tensors, lists of tensors and "
            "numbers, and returns tensors");
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
    return report.description + jit::summary(state_->options.name, report) +
           (state_->replay ? state_->replay->describe() : "");
  }

  /// The same with the time that every kernel took, and its memory traffic per second.
  template <class... Arguments>
  std::string profile(Arguments&&... arguments) const {
    jit::Report report;
    report.describes = report.times = true;
    static_cast<void>(run(report, std::forward<Arguments>(arguments)...));
    return report.description + jit::summary(state_->options.name, report);
  }

  /// How many calls did not run the body; see JitOptions::replay.
  uint64_t replayed() const { return state_->replay ? state_->replay->replayed() : 0; }

 private:
  struct State {
    State(Function f, JitOptions o) : function(std::move(f)), options(std::move(o)) {
      if (options.replay) replay = std::make_unique<jit::Replay>(options.name, options.verify);
    }
    Function function;
    JitOptions options;
    jit::Report report;
    std::unique_ptr<jit::Replay> replay;  // null: the body runs at every call
  };

  template <class... Arguments>
  using Result = std::decay_t<std::invoke_result_t<Function&, Arguments...>>;
  template <class... Arguments>
  static constexpr bool kCanReplay =
      (jit::ReplayArgument<std::remove_cvref_t<Arguments>> && ...) &&
      (std::is_void_v<Result<Arguments...>> || jit::ReplayResult<Result<Arguments...>>::value);

  template <class... Arguments>
  Result<Arguments...> replay(Arguments&&... arguments) const {
    constexpr bool kReturns = !std::is_void_v<Result<Arguments...>>;
    jit::ReplayCall call;
    (call.add(arguments), ...);
    if (const auto found = state_->replay->run(call)) {
      std::span<const Tensor> list(found->results);
      if constexpr (kReturns)
        return jit::ReplayResult<Result<Arguments...>>::from_list(list);
      else
        return;
    }
    jit::Recording recording(call);
    const LazyScope scope(state_->options, &state_->report, &recording);
    std::vector<Tensor> list;
    if constexpr (kReturns) {
      auto result = std::invoke(state_->function, std::forward<Arguments>(arguments)...);
      jit::ReplayResult<Result<Arguments...>>::to_list(result, list);
      recording.finish(list);
      state_->replay->keep(call, recording);
      return result;
    } else {
      std::invoke(state_->function, std::forward<Arguments>(arguments)...);
      recording.finish(list);
      state_->replay->keep(call, recording);
    }
  }

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
