#pragma once

// Where the ranks of a `threads` group meet.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/core/queue.h"
#include "tensora/distributed/combine.h"

namespace tensora::distributed {

using Clock = std::chrono::steady_clock;

/// One call of all ranks, or of a sender and a receiver. Its fields belong to the Meeting's mutex,
/// but for the memory that `calls` refers to, which the last rank to come works on, and the pieces.
struct Exchange {
  explicit Exchange(size_t ranks)
      : calls(ranks), in_counts(ranks), out_counts(ranks), queues(ranks) {}

  std::vector<std::optional<Collective>> calls;  // by rank
  std::vector<std::vector<int64_t>> in_counts, out_counts;
  std::vector<Queue> queues;                      // on which the ranks were working
  std::vector<std::shared_ptr<const void>> kept;  // memory of ranks that gave the call up
  size_t arrived = 0;
  bool at_work = false;            // all ranks have come, and the memory of all is being used
  std::atomic<bool> done = false;  // also read without the mutex, by ranks that spin
  Queue done_on;                   // where the device's work was queued
  double seconds = 0;              // of all threads that worked on it
  std::exception_ptr error;

  // Of a large exchange. Threads take the pieces by number.
  std::vector<CollectivePiece> pieces;
  std::atomic<size_t> next_piece = 0, pieces_done = 0;
  std::vector<bool> has_helped;  // ranks that did their share
};

// Note [The last rank works]
// A rank leaves its call with the group and goes on. The last one to come finds all calls there and
// carries them out, on the pool's threads, for all. So a call is asynchronous without a thread of
// its own, nobody has to be waiting for it to make progress, and no order of waits can deadlock.
//
// A large exchange would make one rank late, for which the others wait at the end of the step. It
// is divided: the last rank does its share, each of the others does one when it next calls the
// group, and a rank that waits, asks whether the call is over, or drops its Work, does what is
// left.
class Meeting : public std::enable_shared_from_this<Meeting> {
 public:
  Meeting(std::string name, std::vector<int> global_ranks, const GroupOptions& options)
      : name_(std::move(name)),
        global_ranks_(std::move(global_ranks)),
        options_(options),
        calls_made_(global_ranks_.size()),
        finished_(global_ranks_.size()),
        spin_(spin_time(global_ranks_.size())) {}

  size_t size() const { return global_ranks_.size(); }
  const std::vector<int>& global_ranks() const { return global_ranks_; }

  /// Leaves the call of a rank, and carries the exchange out if it was the last.
  std::shared_ptr<Exchange> come(size_t rank, const Collective& call);
  /// Waits for the end of an exchange; false after `seconds`, if they are not negative. Warns, and
  /// fails the group, as its options say.
  bool wait(size_t rank, Exchange& exchange, double seconds);
  bool is_done(Exchange& exchange);
  /// A rank drops its handle to an exchange: the memory of the call may go.
  void leave(Exchange& exchange);
  /// Keeps memory of a call that a rank gives up until the exchange is over.
  void keep(Exchange& exchange, std::shared_ptr<const void> memory);
  /// This group and all that were split from it throw from now on.
  void fail(const std::exception_ptr& error);
  /// A rank's body has returned.
  void finish(size_t rank);
  void set_options(const GroupOptions& options);
  /// The group of a split: the first of its members to ask makes it.
  std::shared_ptr<Meeting> part(const std::string& name, const std::vector<int>& members,
                                int occurrence);

 private:
  static Clock::duration spin_time(size_t ranks);
  void spin(const Exchange& exchange) const;
  std::shared_ptr<Exchange> find_exchange(size_t rank, const Collective& call);
  void check_agreement(size_t rank, const Exchange& exchange, const Collective& call);
  void carry_out_exchange(size_t rank, const std::shared_ptr<Exchange>& exchange,
                          std::unique_lock<std::mutex>& lock);
  void work_on(Exchange& exchange, size_t most);
  void do_share(size_t rank, Exchange& exchange);
  void do_shares(size_t rank);
  void do_rest(Exchange& exchange);
  std::vector<int> missing(const Exchange& exchange) const;
  bool awaits_finished_rank(const Exchange& exchange) const;
  bool is_over(const Exchange& exchange) const;
  std::string describe(const Exchange& exchange) const;
  void fail_locked(const std::exception_ptr& error);
  void fail_all(const std::exception_ptr& error, std::unique_lock<std::mutex>& lock);
  void throw_if_failed(const Exchange& exchange) const;

  const std::string name_;
  const std::vector<int> global_ranks_;
  GroupOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> calls_made_;                       // by rank, without send and recv
  std::map<uint64_t, std::shared_ptr<Exchange>> pending_;  // by number of call
  std::deque<std::shared_ptr<Exchange>> divided_;          // whose pieces are being worked on
  std::atomic<size_t> divided_count_ = 0;
  std::map<std::pair<size_t, size_t>, std::deque<std::shared_ptr<Exchange>>> mail_;  // from, to
  std::vector<bool> finished_;
  const Clock::duration spin_;
  std::exception_ptr failure_;
  std::weak_ptr<Meeting> world_;  // of a part
  // A part is kept until all of its members have it: one that has it already may fail and leave.
  struct Part {
    std::weak_ptr<Meeting> meeting;
    std::shared_ptr<Meeting> awaited;
    size_t takers = 0;
  };
  std::map<std::tuple<std::string, std::vector<int>, int>, Part> parts_;
};

}  // namespace tensora::distributed
