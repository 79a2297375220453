#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

/// While it lives, the parallel loops of this thread run inline. The ranks of a process are its
/// parallelism: the first of them to reach a loop would otherwise take the whole thread pool.
class InlineLoops {
 public:
  InlineLoops();
  ~InlineLoops();
  InlineLoops(const InlineLoops&) = delete;
  InlineLoops& operator=(const InlineLoops&) = delete;

 private:
  bool before_;
};

/// Threads of this process that stay and are the ranks of a world (see run_ranks), for calls that
/// come again and again.
class RankThreads {
 public:
  explicit RankThreads(int ranks);
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  int size() const { return ranks_; }
  /// Calls `body` on every rank and returns when all have returned. If a rank throws, its exception
  /// reaches the caller, and since other ranks may have waited for that rank, every later call
  /// throws too. Calls of several threads follow one another.
  void run(const std::function<void(ProcessGroup& world)>& body);

 private:
  void serve(ProcessGroup& world);
  void note(ProcessGroup& world, const std::exception_ptr& error);

  int ranks_;
  std::mutex call_;  // one call at a time
  const std::function<void(ProcessGroup&)>* body_ = nullptr;
  std::atomic<uint32_t> calls_ = 0;  // begun so far
  std::atomic<int> running_ = 0;     // ranks that have not returned from the present one
  std::atomic<bool> ends_ = false;
  std::mutex errors_;
  std::exception_ptr error_;  // the first one
  std::jthread runner_;
};

}  // namespace tensora::distributed
