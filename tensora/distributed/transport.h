#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

/// Why this process's groups can no longer be used; shared by all of them.
class Failure {
 public:
  bool happened() const { return happened_.load(std::memory_order_acquire); }
  /// Whether it happened at least that long ago.
  bool happened_before(std::chrono::steady_clock::duration span) const {
    return happened() && std::chrono::steady_clock::now() - when_ >= span;
  }
  /// The first one stays, and the other ranks are told of it.
  void set(const std::exception_ptr& error);
  /// The same for one that another rank has told.
  void set_from_outside(const std::exception_ptr& error);
  [[noreturn]] void rethrow() const;
  void rethrow_if_happened() const {
    if (happened()) [[unlikely]]
      rethrow();
  }
  /// Called with the first failure of this rank.
  void set_listener(std::function<void(const std::exception_ptr&)> tell);

 private:
  mutable std::mutex mutex_;
  bool keep(const std::exception_ptr& error);

  std::exception_ptr error_;
  std::chrono::steady_clock::time_point when_;  // written once, before happened_
  std::function<void(const std::exception_ptr&)> tell_;
  std::atomic<bool> happened_ = false;
};

/// Looks after the calls of one group while they wait: for the failure of a rank, and for the time
/// that passes.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  Watch(std::string group, std::vector<int> global_ranks, int rank,
        std::shared_ptr<Failure> failure);

  /// Called before a call begins to wait.
  void begin(const Collective& call);
  /// Called now and then while the call waits for `missing`, which are ranks of the group. Throws
  /// where there is no use in waiting.
  void look(const std::vector<int>& missing);

  Failure& failure() const { return *failure_; }
  const std::string& group() const { return group_; }
  const std::vector<int>& global_ranks() const { return global_ranks_; }
  void set_options(const GroupOptions& options);
  /// Asked whether a rank of the world has left the job in order; what it then said.
  std::function<bool(int global_rank)> has_left;
  /// Gets the warning about slow ranks; by default it goes to the standard error.
  std::function<void(const std::string& text, const std::vector<int>& global_ranks)> warn;

 private:
  std::vector<int> in_world(const std::vector<int>& ranks) const;
  [[noreturn]] void fail_with(const std::exception_ptr& error);
  void fail_if_left(const std::vector<int>& numbers);

  const std::string group_;
  const std::vector<int> global_ranks_;
  const int rank_;
  const std::shared_ptr<Failure> failure_;
  std::atomic<double> limit_ = GroupOptions{}.limit, warn_after_ = GroupOptions{}.warn_after;
  CallSummary call_;
  Clock::time_point start_;
  bool warned_ = false;
  std::vector<int> gone_;  // ranks that had left when the call last looked
};

/// Moves the data of one group's calls, one call at a time, on the thread that asks for it.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Returns when this rank's part is done. The views are in the host's memory.
  virtual void run(const Collective& call) = 0;
  /// "windows of one host" or "MPI between 2 hosts", for reports.
  virtual std::string describe() const = 0;
};

}  // namespace tensora::distributed
