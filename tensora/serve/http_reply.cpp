#include "tensora/serve/http_reply.h"

#include "tensora/serve/http_head.h"
#include "tensora/serve/router.h"

namespace tensora::serve {

namespace {

// Replies of a batch for which it is worth while to wake a thread: it sends them while the others
// are written.
constexpr size_t kMostPutOff = 32;

struct OpenBatch {
  int depth = 0;
  std::vector<std::shared_ptr<Outlet>> outlets;  // whose threads are still to be woken
};
thread_local OpenBatch batch;

}  // namespace

WriteBatch::WriteBatch() { ++batch.depth; }

WriteBatch::~WriteBatch() {
  if (--batch.depth > 0) return;
  for (const auto& outlet : batch.outlets) outlet->wake();
  batch.outlets.clear();
}

void Outlet::mark(std::shared_ptr<ReplyState> reply) {
  const std::lock_guard lock(mutex_);
  if (!wake_) return;  // nobody would take it, and replies hold their outlet
  dirty_.push_back(std::move(reply));
  if (is_woken_) return;
  if (batch.depth > 0 && dirty_.size() < kMostPutOff) {
    if (dirty_.size() == 1) batch.outlets.push_back(shared_from_this());
    return;
  }
  is_woken_ = true;
  wake_();
}

void Outlet::wake() {
  const std::lock_guard lock(mutex_);
  if (!wake_ || is_woken_ || dirty_.empty()) return;
  is_woken_ = true;
  wake_();
}

std::vector<std::shared_ptr<ReplyState>> Outlet::take() {
  std::vector<std::shared_ptr<ReplyState>> taken;
  const std::lock_guard lock(mutex_);
  taken.swap(dirty_);
  is_woken_ = false;
  return taken;
}

void Outlet::close() {
  std::vector<std::shared_ptr<ReplyState>> dropped;
  const std::lock_guard lock(mutex_);
  wake_ = nullptr;
  dropped.swap(dirty_);
}

void ReplyState::changed_locked() {
  if (is_marked_) return;
  is_marked_ = true;
  outlet_->mark(shared_from_this());
}

void ReplyState::send(HttpResponse response) {
  std::function<void()> dropped;  // it may hold the last handle of this reply
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::open) dropped.swap(gone_callback_);
  send_locked(std::move(response));
}

void ReplyState::send_locked(HttpResponse response) {
  if (phase_ != Phase::open || is_gone()) return;
  phase_ = Phase::ended;
  if (outlet_->is_draining) facts_.keeps_alive = false;
  const size_t before = pending_.size();
  pending_ += response_head(response, facts_.id, HttpFraming::length, response.body.size(),
                            facts_.keeps_alive);
  if (!facts_.is_head) pending_ += response.body;
  unsent_.fetch_add(pending_.size() - before, std::memory_order_relaxed);
  changed_locked();
}

void ReplyState::begin(HttpResponse head) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::open || is_gone()) return;
  phase_ = Phase::streaming;
  is_chunked_ = !facts_.is_http_1_0;
  // Without chunks, the end of the connection is the end of the answer.
  if (!is_chunked_ || outlet_->is_draining) facts_.keeps_alive = false;
  const size_t before = pending_.size();
  pending_ +=
      response_head(head, facts_.id, is_chunked_ ? HttpFraming::chunked : HttpFraming::connection,
                    0, facts_.keeps_alive);
  if (!facts_.is_head && !head.body.empty()) {
    if (is_chunked_)
      append_chunk(pending_, head.body);
    else
      pending_ += head.body;
  }
  unsent_.fetch_add(pending_.size() - before, std::memory_order_relaxed);
  changed_locked();
}

void ReplyState::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::streaming || is_gone() || facts_.is_head || bytes.empty()) return;
  const size_t before = pending_.size();
  if (is_chunked_)
    append_chunk(pending_, bytes);
  else
    pending_ += bytes;
  unsent_.fetch_add(pending_.size() - before, std::memory_order_relaxed);
  changed_locked();
}

void ReplyState::end() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::streaming || is_gone()) return;
  phase_ = Phase::ended;
  dropped.swap(gone_callback_);
  // The head has perhaps promised to keep the connection; clients have to bear its end.
  if (outlet_->is_draining) facts_.keeps_alive = false;
  if (is_chunked_ && !facts_.is_head) {
    pending_ += "0\r\n\r\n";
    unsent_.fetch_add(5, std::memory_order_relaxed);
  }
  changed_locked();
}

void ReplyState::on_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_gone()) {
      if (phase_ != Phase::ended) gone_callback_ = std::move(callback);
      return;
    }
  }
  callback();
}

void ReplyState::drop() {
  std::function<void()> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(gone_callback_);
  if (is_gone()) return;
  if (phase_ == Phase::open) {
    send_locked(openai_error(ApiError(500, "internal error")));
  } else if (phase_ == Phase::streaming) {
    phase_ = Phase::ended;
    is_broken_ = true;
    facts_.keeps_alive = false;
    changed_locked();
  }
}

bool ReplyState::take(std::string& out) {
  const std::lock_guard lock(mutex_);
  is_marked_ = false;
  out.swap(pending_);
  return phase_ == Phase::ended;
}

void ReplyState::lose() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    is_gone_ = true;
    pending_ = {};
    unsent_ = 0;
    if (phase_ != Phase::ended) callback.swap(gone_callback_);
  }
  if (callback) callback();
}

}  // namespace tensora::serve
