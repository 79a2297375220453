#pragma once

// The calls of a group that run one after the other.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "tensora/core/queue.h"
#include "tensora/distributed/recorder.h"
#include "tensora/distributed/transport.h"

namespace tensora::distributed {

/// A call that a lane has been given.
struct QueuedCall {
  Collective call;
  std::vector<int64_t> in_counts, out_counts;
  Queue caller;                                   // where the views' memory is another device's
  Queue done_on;                                  // where their results are written
  std::vector<std::shared_ptr<const void>> kept;  // memory of a call that was given up
  uint64_t number = 0;
  bool done = false;
  double seconds = 0;
  std::exception_ptr error;
};

// Note [A thread for calls]
// A library such as MPI makes progress only while somebody is inside one of its functions, and
// through shared memory it is the ranks themselves that copy. Asynchronous calls therefore run on a
// thread of the group, which sleeps when there is nothing to do. Waking it takes longer than a
// small call does: a blocking call runs on the thread that makes it, if no other call is before it.
class Lane {
 public:
  Lane(std::unique_ptr<Transport> transport, std::string group, std::shared_ptr<Watch> watch,
       std::shared_ptr<Recorder> recorder);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Null if the call is done.
  std::shared_ptr<QueuedCall> start(const Collective& call);
  /// Waits for a call, for as long as `seconds` if they are not negative; false after that.
  bool wait(QueuedCall& call, double seconds);
  bool is_done(const QueuedCall& call);
  /// Keeps memory of a call until the lane's thread is through with it.
  void keep(QueuedCall& call, std::shared_ptr<const void> memory);
  const Transport& transport() const { return *transport_; }

 private:
  bool is_over(const QueuedCall& call) const;
  void serve();
  void run(const Collective& call, QueuedCall* queued);
  void run_staged(const Collective& call, QueuedCall& queued);

  std::unique_ptr<Transport> transport_;
  const std::string group_;
  const std::shared_ptr<Watch> watch_;
  const std::shared_ptr<Recorder> recorder_;
  std::mutex mutex_;
  std::condition_variable added_, ended_;
  std::deque<std::shared_ptr<QueuedCall>> queue_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;  // started by the first asynchronous call
};

}  // namespace tensora::distributed
