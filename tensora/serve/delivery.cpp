#include "tensora/serve/delivery.h"

#include <algorithm>
#include <chrono>

#include "tensora/base/check.h"
#include "tensora/serve/own_thread.h"

namespace tensora::serve {
namespace {

// How often a client that reads too slowly is looked at: nobody tells when it has caught up.
constexpr std::chrono::duration<double> kLook(0.005), kLong(3600);
// How often answers that wait are looked at where they have a deadline.
constexpr std::chrono::duration<double> kLookForLate(0.1);

// Only a sampler can tell that a request forbids every token; other errors while an answer is
// computed are not the client's fault.
bool is_mistake(std::string_view what) {
  return what.starts_with("sampling: expected a token that is allowed");
}

}  // namespace

// Rung by engines after a step, by clients that go, and for letters. A letter tells which job it is
// about; the others ring for a look at all of them.
class Delivery::Bell final : public llm::StepListener {
 public:
  void on_step() noexcept override { ring_for_all(); }
  void ring_for_all() noexcept {
    is_for_all_ = true;
    ring();
  }
  void ring() noexcept {
    // One that is rung already will be heard.
    if (is_rung_.exchange(true)) return;
    { const std::lock_guard lock(mutex_); }
    changed_.notify_one();
  }
  /// Waits for a ring, no longer than some seconds; whether there was one.
  bool wait(std::chrono::duration<double> most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return is_rung_.exchange(false); });
  }
  /// Whether all jobs are to be looked at.
  bool was_for_all() { return is_for_all_.exchange(false); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> is_rung_ = false, is_for_all_ = false;
};

Delivery::Delivery(Options options)
    : options_(std::move(options)), bell_(std::make_shared<Bell>()) {
  thread_ = std::thread([this] {
    begin_own_thread("serve-delivery");
    take_short_slices();  // tokens go out although the engine keeps all cores busy
    run();
  });
}

Delivery::~Delivery() {
  is_closing_ = true;
  bell_->ring();
  thread_.join();
}

std::shared_ptr<llm::StepListener> Delivery::listener() const { return bell_; }

void Delivery::post(Letter letter) {
  {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }
  bell_->ring();
}

void Delivery::add(const std::shared_ptr<AnswerJob>& job) {
  answers_ += static_cast<int64_t>(job->size());
  if (job->is_stream()) ++streams_;
  post({.job = job});
  // Neither the job nor this object is kept by the connection.
  job->reply().on_gone([job = std::weak_ptr(job), bell = bell_] {
    if (const auto left = job.lock()) left->set_gone();
    bell->ring_for_all();
  });
}

void Delivery::start(const std::shared_ptr<AnswerJob>& job, size_t answer,
                     llm::Generation generation, double waited) {
  post({.job = job, .generation = std::move(generation), .answer = answer, .waited = waited});
}

void Delivery::fail(const std::shared_ptr<AnswerJob>& job, const ApiError& error) {
  post({.job = job, .error = error});
}

void Delivery::end_late(const std::shared_ptr<AnswerJob>& job, size_t answer) {
  post({.job = job, .answer = answer, .is_late = true});
}

void Delivery::end_all(const ApiError& error) { post({.error = error}); }

void Delivery::run() {
  std::vector<Letter> letters;
  bool was_busy = false;  // since the last `on_idle`
  while (!is_closing_) {
    const bool awaits_idleness = was_busy && jobs_.empty() && options_.on_idle;
    const bool was_rung =
        bell_->wait(paused_ > 0                               ? kLook
                    : options_.has_deadline && !jobs_.empty() ? kLookForLate
                    : awaits_idleness ? std::chrono::duration<double>(options_.idle_seconds)
                                      : kLong);
    if (!was_rung && awaits_idleness) {
      options_.on_idle();
      was_busy = false;
    }
    {
      const std::lock_guard lock(mutex_);
      letters.swap(letters_);
    }
    was_busy = was_busy || !letters.empty();
    for (Letter& letter : letters) read(letter);
    letters.clear();
    if (bell_->was_for_all() || !was_rung || is_any_over_) go_through();
  }
  for (Letter& letter : letters_) read(letter);
  const ApiError closing(503, "the server is shutting down", {}, "shutting_down");
  for (const auto& job : jobs_)
    change(*job,
           [&] { job->is_gone() ? job->cancel(CancelCause::client_gone) : job->fail(closing); });
}

// Does something with a job, and tells how many places in its engine it gives back or takes by
// that. Without that, clients that read slowly would hold all places, and nobody else would be
// answered.
void Delivery::change(AnswerJob& job, const std::function<void()>& what) {
  const bool was_over = job.is_over();
  const int64_t before = job.active();
  const auto fail_with = [&](const ApiError& error) {
    try {
      job.fail(error);
    } catch (const std::exception& second) {
      if (options_.log) options_.log(concat("delivery: ", second.what()));
    }
  };
  try {
    what();
  } catch (const ApiError& error) {
    fail_with(error);
  } catch (const std::exception& error) {
    if (is_mistake(error.what())) {
      fail_with(ApiError(400, error.what()));
    } else {
      if (options_.log) options_.log(concat("an answer failed: ", error.what()));
      fail_with(ApiError(500, "internal error", {}, "internal_error"));
    }
  }
  const int64_t left = before - job.active();
  if (left > 0) options_.on_left(job, left);
  if (left < 0) options_.on_resumed(job, -left);
  if (was_over || !job.is_over()) return;
  is_any_over_ = true;
  options_.on_over(job);
}

void Delivery::read(Letter& letter) {
  if (!letter.job) {
    for (const auto& job : jobs_) change(*job, [&] { job->fail(*letter.error); });
    return;
  }
  AnswerJob& job = *letter.job;
  if (letter.generation) {
    const bool starts = job.start(letter.answer, std::move(*letter.generation), letter.waited);
    if (!starts || job.is_paused()) options_.on_left(job, 1);
    // The engine may have rung for it before it was here.
    change(job, [&] { deliver(job); });
  } else if (letter.is_late) {
    change(job, [&] { job.end_late(letter.answer); });
  } else if (letter.error) {
    change(job, [&] { job.fail(*letter.error); });
  } else {
    jobs_.push_back(letter.job);
    // An answer that waited may have begun and ended before: engines rang for a job that was not
    // here.
    change(job, [&] { deliver(job); });
    is_any_over_ = is_any_over_ || job.is_over();
  }
}

void Delivery::deliver(AnswerJob& job) {
  if (job.is_gone())
    job.cancel(CancelCause::client_gone);
  else if (job.is_late())
    job.fail(too_late());
  else
    job.deliver();
}

void Delivery::go_through() {
  const WriteBatch batch;  // a step is handed on once
  int64_t paused = 0;
  uint64_t unsent = 0;
  for (const auto& job : jobs_) {
    change(*job, [&] { deliver(*job); });
    if (job->is_over() || !job->is_stream()) continue;
    change(*job, [&] { unsent += job->follow_client(options_.most_unsent); });
    if (job->is_paused()) ++paused;
  }
  paused_.store(paused, std::memory_order_relaxed);
  unsent_.store(unsent, std::memory_order_relaxed);
  if (!std::exchange(is_any_over_, false)) return;
  std::erase_if(jobs_, [&](const std::shared_ptr<AnswerJob>& job) {
    if (!job->is_over()) return false;
    answers_ -= static_cast<int64_t>(job->size());
    if (job->is_stream()) --streams_;
    return true;
  });
}

}  // namespace tensora::serve
