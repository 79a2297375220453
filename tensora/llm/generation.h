#pragma once

#include <memory>
#include <optional>

#include "tensora/llm/request.h"

namespace tensora::llm {

/// A request on its way: handed out by Engine::submit. Dropping the handle cancels the request.
/// `cancel`, `pause` and `resume` may be called from any thread; the rest is for one thread at a
/// time.
class Generation {
 public:
  struct State;

  explicit Generation(std::shared_ptr<State> state) : state_(std::move(state)) {}
  Generation(Generation&&) noexcept = default;
  Generation& operator=(Generation&& other) noexcept;
  ~Generation();

  /// Waits for the next part of the answer; none: it has ended. Throws what went wrong.
  std::optional<Piece> next();
  /// Puts the next part of the answer into `piece`, which stays empty where there is none yet; does
  /// not wait. Its memory is used again: a part a step costs no allocation. False: the answer has
  /// ended, and this was the last part. Throws what went wrong.
  bool take(Piece& piece);
  /// Waits for a part or the end, but no longer than some seconds; whether `next` would not wait
  /// now.
  bool is_ready(double seconds);
  /// Waits for the end and returns all of it. Throws what went wrong. A cancelled request ends
  /// with what it had.
  Completion wait();
  /// Ends the request before its next step. Does not wait.
  void cancel();
  /// Computes no more tokens after the current step, until `resume`. Does not wait. While it
  /// pauses, others may get its place, and its part of the cache where that is needed; deadlines
  /// and `cancel` end it nevertheless.
  void pause();
  void resume();
  bool is_done() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace tensora::llm
