#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensora/serve/http.h"

namespace tensora::serve {

class Connection;
class ReplyState;

/// Replies with something new, on their way to an I/O thread. The thread is woken when the first
/// one comes, or as a WriteBatch says; those that follow before it looks cost no wake-up.
class Outlet : public std::enable_shared_from_this<Outlet> {
 public:
  explicit Outlet(std::function<void()> wake) : wake_(std::move(wake)) {}
  void mark(std::shared_ptr<ReplyState> reply);
  /// Wakes the thread if that was put off.
  void wake();
  std::vector<std::shared_ptr<ReplyState>> take();
  /// Nobody is woken from now on.
  void close();

  std::atomic<bool> is_draining = false;  // answers from now on close their connection

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<ReplyState>> dirty_;
  bool is_woken_ = false;  // and has not looked yet
  std::function<void()> wake_;
};

/// What a connection has to know of a request to frame its answer.
struct ReplyFacts {
  std::string id = {};
  bool is_head = false;  // the method is HEAD
  bool is_http_1_0 = false;
  bool keeps_alive = true;
};

/// An answer between the threads that write it and the I/O thread that sends it.
class ReplyState : public std::enable_shared_from_this<ReplyState> {
 public:
  ReplyState(std::shared_ptr<Outlet> outlet, ReplyFacts facts)
      : outlet_(std::move(outlet)), facts_(std::move(facts)) {}

  // For writers, any thread.
  void send(HttpResponse response);
  void begin(HttpResponse head);
  void write(std::string_view bytes);
  void end();
  void on_gone(std::function<void()> callback);
  /// Nobody holds the reply any more.
  void drop();
  size_t unsent() const { return unsent_.load(std::memory_order_relaxed); }
  bool is_gone() const { return is_gone_.load(std::memory_order_relaxed); }

  // For the I/O thread.
  /// Exchanges the bytes written so far with `out`, which is empty. Returns whether no more will
  /// come.
  bool take(std::string& out);
  void count_queued(size_t bytes) { unsent_.fetch_add(bytes, std::memory_order_relaxed); }
  void count_sent(size_t bytes) { unsent_.fetch_sub(bytes, std::memory_order_relaxed); }
  void lose();
  /// After the end: the connection may be used again.
  bool keeps_alive() const { return facts_.keeps_alive; }
  /// The answer was given up in the middle: the client must not take it for a whole one.
  bool is_broken() const { return is_broken_; }
  Connection* connection = nullptr;

 private:
  enum class Phase : unsigned char { open, streaming, ended };

  void send_locked(HttpResponse response);
  void changed_locked();

  const std::shared_ptr<Outlet> outlet_;
  std::mutex mutex_;
  ReplyFacts facts_;
  Phase phase_ = Phase::open;
  bool is_chunked_ = false;
  bool is_marked_ = false;
  bool is_broken_ = false;
  std::string pending_;
  std::function<void()> gone_callback_;
  std::atomic<size_t> unsent_ = 0;
  std::atomic<bool> is_gone_ = false;
};

/// The handle that handlers get.
class HttpReply final : public Reply {
 public:
  explicit HttpReply(std::shared_ptr<ReplyState> state) : state_(std::move(state)) {}
  ~HttpReply() override { state_->drop(); }
  void send(HttpResponse response) override { state_->send(std::move(response)); }
  void begin(HttpResponse head) override { state_->begin(std::move(head)); }
  void write(std::string_view bytes) override { state_->write(bytes); }
  void end() override { state_->end(); }
  size_t unsent() const override { return state_->unsent(); }
  bool is_gone() const override { return state_->is_gone(); }
  void on_gone(std::function<void()> callback) override { state_->on_gone(std::move(callback)); }

 private:
  std::shared_ptr<ReplyState> state_;
};

}  // namespace tensora::serve
