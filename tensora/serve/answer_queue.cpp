#include "tensora/serve/answer_queue.h"

#include <algorithm>
#include <cmath>

#include "tensora/base/check.h"

namespace tensora::serve {

bool AnswerQueue::start(Lane lane, int64_t places, int64_t count) {
  const std::lock_guard lock(mutex_);
  LaneState& state = lanes_[lane];
  state.places = places;
  if (!state.queues.empty() || state.used + count > places) return false;
  state.used += count;
  return true;
}

ApiError AnswerQueue::refusal(const LaneState& lane, int64_t count,
                              const std::string& whose) const {
  ApiError error(429, concat(whose, ": ", count, " answers are waiting already; try again later"),
                 {}, "rate_limit_exceeded");
  const double places = static_cast<double>(std::max<int64_t>(1, lane.places));
  const double seconds = std::ceil(static_cast<double>(waiting()) / places * mean_seconds_);
  error.headers.emplace_back("retry-after",
                             std::to_string(static_cast<int64_t>(std::clamp(seconds, 1., 60.))));
  return error;
}

void AnswerQueue::wait(Lane lane, int64_t places, const std::string& key,
                       std::shared_ptr<AnswerJob> job, size_t count) {
  {
    const std::lock_guard lock(mutex_);
    LaneState& state = lanes_[lane];
    state.places = places;
    const auto more = static_cast<int64_t>(count);
    if (waiting_ + more > limits_.most) throw refusal(state, waiting_, "the queue is full");
    int64_t of_key = 0;
    for (const auto& [other, lane_state] : lanes_)
      for (const Queue& queue : lane_state.queues)
        if (queue.key == key) of_key += static_cast<int64_t>(queue.answers.size());
    if (of_key + more > limits_.most_per_key)
      throw refusal(state, of_key, "the queue of this key is full");
    auto found = std::find_if(state.queues.begin(), state.queues.end(),
                              [&](const Queue& queue) { return queue.key == key; });
    if (found == state.queues.end()) {
      state.queues.push_back({.key = key, .answers = {}});
      found = state.queues.end() - 1;
    }
    for (size_t i = 0; i < count; ++i) found->answers.push_back({job, i});
    waiting_ += more;
  }
  changed_.notify_one();
}

// The next answer for which there is a place, with it.
std::optional<QueuedAnswer> AnswerQueue::take() {
  for (auto& [lane, state] : lanes_) {
    if (state.queues.empty() || state.used >= state.places) continue;
    Queue queue = std::move(state.queues.front());
    state.queues.pop_front();
    QueuedAnswer answer = std::move(queue.answers.front());
    queue.answers.pop_front();
    if (!queue.answers.empty()) state.queues.push_back(std::move(queue));
    ++state.used;
    --waiting_;
    return answer;
  }
  return std::nullopt;
}

std::optional<QueuedAnswer> AnswerQueue::next() {
  std::unique_lock lock(mutex_);
  while (!is_closed_) {
    if (auto answer = take()) return answer;
    changed_.wait(lock);
  }
  return std::nullopt;
}

void AnswerQueue::release(Lane lane) {
  bool somebody_waits = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = lanes_.find(lane);
    ensure(found != lanes_.end() && found->second.used > 0, "queue: a place is released twice");
    --found->second.used;
    somebody_waits = !found->second.queues.empty();
    if (!somebody_waits && found->second.used == 0) lanes_.erase(found);
  }
  if (somebody_waits) changed_.notify_one();
}

void AnswerQueue::resume(Lane lane, int64_t places, int64_t count) {
  const std::lock_guard lock(mutex_);
  LaneState& state = lanes_[lane];
  state.places = places;
  state.used += count;
}

size_t AnswerQueue::forget(Lane lane, const std::string& key, const AnswerJob& job) {
  std::vector<QueuedAnswer> gone;  // dropped without the lock
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find(lane);
  if (found == lanes_.end()) return 0;
  LaneState& state = found->second;
  for (Queue& queue : state.queues) {
    if (queue.key != key) continue;
    std::erase_if(queue.answers, [&](QueuedAnswer& answer) {
      if (answer.job.get() != &job) return false;
      gone.push_back(std::move(answer));
      return true;
    });
  }
  std::erase_if(state.queues, [](const Queue& queue) { return queue.answers.empty(); });
  if (state.queues.empty() && state.used == 0) lanes_.erase(found);
  waiting_ -= static_cast<int64_t>(gone.size());
  return gone.size();
}

void AnswerQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
}

void AnswerQueue::count_time(double seconds) {
  const std::lock_guard lock(mutex_);
  mean_seconds_ += (seconds - mean_seconds_) / 16;
}

}  // namespace tensora::serve
