#include "tensora/llm/generation.h"

#include <chrono>

#include "tensora/llm/generation_state.h"

namespace tensora::llm {

void Generation::State::add(std::string_view text, Sampled token) {
  const std::lock_guard lock(mutex);
  pending.text += text;
  pending.tokens.push_back(std::move(token));
  has_pending = true;
  // Waking a thread costs more than all the rest: only one that waits for a part.
  if (is_awaited) changed.notify_all();
}

void Generation::State::add_prompt(std::vector<Sampled> prompt) {
  const std::lock_guard lock(mutex);
  pending.prompt = std::move(prompt);
  has_pending = true;
  if (is_awaited) changed.notify_all();
}

void Generation::State::finish(std::string_view text, Completion result) {
  const std::lock_guard lock(mutex);
  pending.text += text;
  has_pending = has_pending || !text.empty();
  completion = std::move(result);
  done = true;
  changed.notify_all();
}

void Generation::State::fail(std::exception_ptr what) {
  const std::lock_guard lock(mutex);
  error = std::move(what);
  done = true;
  changed.notify_all();
}

Generation& Generation::operator=(Generation&& other) noexcept {
  if (this != &other) {
    if (state_) cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

Generation::~Generation() {
  if (state_) cancel();
}

bool Generation::is_ready(double seconds) {
  std::unique_lock lock(state_->mutex);
  state_->is_awaited = true;
  const bool ready = state_->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                              [&] { return state_->has_news(); });
  state_->is_awaited = false;
  return ready;
}

std::optional<Piece> Generation::next() {
  std::unique_lock lock(state_->mutex);
  state_->is_awaited = true;
  state_->changed.wait(lock, [&] { return state_->has_news(); });
  state_->is_awaited = false;
  if (state_->error) std::rethrow_exception(state_->error);
  if (!state_->has_pending) return std::nullopt;
  state_->has_pending = false;
  return std::exchange(state_->pending, {});
}

bool Generation::take(Piece& piece) {
  piece.clear();
  const std::lock_guard lock(state_->mutex);
  if (state_->error) std::rethrow_exception(state_->error);
  if (std::exchange(state_->has_pending, false)) std::swap(piece, state_->pending);
  return !state_->done;
}

Completion Generation::wait() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
  return state_->completion;
}

void Generation::cancel() {
  // An engine whose requests all pause must be told.
  if (!state_->cancelled.exchange(true) && state_->doorbell) state_->doorbell->ring();
}

void Generation::pause() { state_->paused = true; }

void Generation::resume() {
  if (state_->paused.exchange(false) && state_->doorbell) state_->doorbell->ring();
}

bool Generation::is_done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

}  // namespace tensora::llm
