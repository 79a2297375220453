#include "tensora/distributed/transport.h"

#include <algorithm>

#include "tensora/distributed/report.h"

namespace tensora::distributed {

bool Failure::keep(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (error_) return false;
  error_ = error;
  when_ = std::chrono::steady_clock::now();
  happened_.store(true, std::memory_order_release);
  return true;
}

void Failure::set(const std::exception_ptr& error) {
  if (!keep(error)) return;
  std::function<void(const std::exception_ptr&)> tell;
  {
    const std::lock_guard lock(mutex_);
    tell = tell_;
  }
  if (tell) tell(error);
}

void Failure::set_from_outside(const std::exception_ptr& error) { keep(error); }

void Failure::set_listener(std::function<void(const std::exception_ptr&)> tell) {
  const std::lock_guard lock(mutex_);
  tell_ = std::move(tell);
}

void Failure::rethrow() const {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = error_;
  }
  std::rethrow_exception(error);
}

Watch::Watch(std::string group, std::vector<int> global_ranks, int rank,
             std::shared_ptr<Failure> failure)
    : group_(std::move(group)),
      global_ranks_(std::move(global_ranks)),
      rank_(rank),
      failure_(std::move(failure)) {}

void Watch::set_options(const GroupOptions& options) {
  limit_ = options.limit;
  warn_after_ = options.warn_after;
}

void Watch::begin(const Collective& call) {
  failure_->rethrow_if_happened();
  call_ = summary_of(call);
  start_ = Clock::now();
  warned_ = false;
  gone_.clear();
}

std::vector<int> Watch::in_world(const std::vector<int>& ranks) const {
  std::vector<int> numbers;
  for (int rank : ranks) numbers.push_back(global_ranks_[static_cast<size_t>(rank)]);
  return numbers;
}

void Watch::fail_with(const std::exception_ptr& error) {
  failure_->set(error);
  std::rethrow_exception(error);
}

// A rank that has left may have come to the call before. The caller could not know it yet if it
// asked who is missing before the rank came, so only a rank that is missing in two looks is missed.
void Watch::fail_if_left(const std::vector<int>& numbers) {
  std::vector<int> gone;
  for (const int number : numbers) {
    if (!has_left || !has_left(number)) continue;
    if (std::ranges::find(gone_, number) != gone_.end())
      fail_with(std::make_exception_ptr(
          RankFailedError(number, concat("group ", group_, ": rank ", number,
                                         " ended and will not come to ", to_string(call_)))));
    gone.push_back(number);
  }
  gone_ = std::move(gone);
}

void Watch::look(const std::vector<int>& missing) {
  failure_->rethrow_if_happened();
  const double waited = std::chrono::duration<double>(Clock::now() - start_).count();
  const std::vector<int> numbers = in_world(missing);
  fail_if_left(numbers);
  const double warn_after = warn_after_, limit = limit_;
  if (!warned_ && warn_after > 0 && waited >= warn_after) {
    warned_ = true;
    const std::string text = concat("rank ", global_ranks_[static_cast<size_t>(rank_)],
                                    " has waited ", warn_after, " s in group ", group_, " for ",
                                    ranks_text(numbers), " to come to ", to_string(call_));
    if (warn)
      warn(text, numbers);
    else
      report(text);
  }
  if (limit > 0 && waited >= limit)
    fail_with(std::make_exception_ptr(
        GroupTimeoutError(concat("group ", group_, ": ", ranks_text(numbers),
                                 " did not come within ", limit, " s to ", to_string(call_)))));
}

}  // namespace tensora::distributed
