#include "tensora/base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/base/fork.h"
#include "tensora/base/settings.h"

// Note [One region, one gate]
// The pool has one job slot. `gate_` says whether the slot may be entered (kOpen) and how many
// workers are inside. The caller fills the slot, opens the gate and takes part in the work; when
// nothing is left to claim it closes the gate and waits only for the workers that did enter. A
// worker that sleeps through a short region therefore costs nothing. The slot is written only while
// the gate is closed and nobody is inside, which is what makes its plain members safe to read.

namespace tensora {

namespace detail {
constinit thread_local bool inside_parallel_region = false;
}

namespace {

constexpr int kMaxThreads = 1024;
constexpr uint32_t kOpen = uint32_t{1} << 31;

// Long enough to bridge the serial code between two ops of a step, short enough not to take a
// core away from a neighbour.
constexpr std::chrono::microseconds kSpinTime{40};

inline void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `ready()` or until the spinning time is over; the caller then sleeps.
template <class Ready>
bool spin_until(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

int allowed_hardware_threads() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int default_num_threads() {
  const int hardware = std::min(allowed_hardware_threads(), kMaxThreads);
  return static_cast<int>(number_setting("TENSORA_NUM_THREADS", 1, kMaxThreads, hardware));
}

class RegionMark {
 public:
  RegionMark() { detail::inside_parallel_region = true; }
  ~RegionMark() { detail::inside_parallel_region = false; }
  RegionMark(const RegionMark&) = delete;
  RegionMark& operator=(const RegionMark&) = delete;
};

/// The work of one region, split on demand into ranges that shrink towards the end: few claims at
/// first, and short waits at the end.
struct Job {
  const RangeBody* body = nullptr;
  int64_t n = 0;
  int64_t grain = 1;
  int64_t shares = 1;  // a claim takes remaining / shares
  std::exception_ptr error;
  std::atomic_flag failed;
  alignas(64) std::atomic<int64_t> next = 0;

  void fill(int64_t items, int64_t at_least, int threads, const RangeBody& work) {
    body = &work;
    n = items;
    grain = at_least;
    shares = int64_t{3} * threads;
    error = nullptr;
    failed.clear(std::memory_order_relaxed);
    next.store(0, std::memory_order_relaxed);
  }

  void work_on() {
    for (;;) {
      int64_t begin = next.load(std::memory_order_relaxed);
      int64_t end = 0;
      do {
        if (begin >= n) return;
        const int64_t grains = std::max<int64_t>(1, (n - begin) / shares / grain);
        end = n - begin <= grains * grain ? n : begin + grains * grain;
      } while (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
      try {
        (*body)(begin, end);
      } catch (...) {
        if (!failed.test_and_set(std::memory_order_relaxed)) error = std::current_exception();
        next.store(n, std::memory_order_relaxed);
      }
    }
  }
};

class Pool {
 public:
  int num_threads() {
    int n = num_threads_.load(std::memory_order_relaxed);
    if (n == 0) {
      // Two first calls may race; both compute the same.
      int expected = 0;
      n = default_num_threads();
      if (!num_threads_.compare_exchange_strong(expected, n)) n = expected;
    }
    return n;
  }

  void set_num_threads(int n) {
    const std::lock_guard lock(user_);
    if (n == num_threads_.load(std::memory_order_relaxed)) return;
    dismiss_workers();
    num_threads_.store(n, std::memory_order_relaxed);
  }

  void run(int64_t n, int64_t grain, const RangeBody& body) {
    const std::unique_lock lock(user_, std::try_to_lock);
    if (!lock.owns_lock() || num_threads() == 1 || !ensure_workers()) {
      body(0, n);
      return;
    }
    job_.fill(n, grain, static_cast<int>(workers_->size()) + 1, body);
    gate_.store(kOpen, std::memory_order_release);
    call_workers((n - 1) / grain);
    {
      const RegionMark mark;
      job_.work_on();
    }
    close_gate();
    if (job_.error) std::rethrow_exception(std::exchange(job_.error, nullptr));
  }

  /// After this every region runs inline; for process exit.
  void retire() {
    // exit() called from a body: this very thread may be a worker, or wait for one.
    if (in_parallel_region()) return;
    const std::lock_guard lock(user_);
    dismiss_workers();
    retired_ = true;
  }

  /// In a forked child no worker exists any more and the lock may be held by a lost thread.
  void restart_after_fork() {
    new (&user_) std::mutex;
    lost_workers_ = std::exchange(workers_, nullptr);
    gate_.store(0, std::memory_order_relaxed);
  }

 private:
  bool ensure_workers() {
    if (workers_ != nullptr) return !workers_->empty();
    if (retired_) return false;
    workers_ = new std::vector<std::thread>;
    stopping_.store(false, std::memory_order_relaxed);
    const uint32_t start = epoch_.load(std::memory_order_relaxed);
    const size_t wanted = static_cast<size_t>(num_threads() - 1);
    workers_->reserve(wanted);
    try {
      while (workers_->size() < wanted) workers_->emplace_back([this, start] { serve(start); });
    } catch (const std::system_error&) {
      // The system refuses to create more threads: go on with those we have.
    }
    return !workers_->empty();
  }

  void dismiss_workers() {
    if (workers_ == nullptr) return;
    stopping_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& worker : *workers_) worker.join();
    delete std::exchange(workers_, nullptr);
  }

  void call_workers(int64_t useful) {
    epoch_.fetch_add(1, std::memory_order_release);
    if (useful >= static_cast<int64_t>(workers_->size())) {
      epoch_.notify_all();
    } else {
      for (; useful > 0; --useful) epoch_.notify_one();
    }
  }

  void close_gate() {
    uint32_t inside = gate_.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
    if (inside == 0) return;
    const auto empty = [&] { return (inside = gate_.load(std::memory_order_acquire)) == 0; };
    if (spin_until(empty)) return;
    while (!empty()) gate_.wait(inside, std::memory_order_acquire);
  }

  bool enter_gate() {
    uint32_t gate = gate_.load(std::memory_order_relaxed);
    do {
      if ((gate & kOpen) == 0) return false;
    } while (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    return true;
  }

  void leave_gate() {
    // 1 means: the last one out, and the caller has closed the gate behind us.
    if (gate_.fetch_sub(1, std::memory_order_release) == 1) gate_.notify_one();
  }

  void serve(uint32_t seen) {
    detail::inside_parallel_region = true;
    for (;;) {
      const auto called = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
      if (!spin_until(called)) {
        while (!called()) epoch_.wait(seen, std::memory_order_acquire);
      }
      seen = epoch_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      if (!enter_gate()) continue;
      job_.work_on();
      leave_gate();
    }
  }

  std::mutex user_;  // held for the length of a region by the thread that started it
  std::atomic<int> num_threads_ = 0;
  bool retired_ = false;
  std::vector<std::thread>* workers_ = nullptr;
  std::vector<std::thread>* lost_workers_ = nullptr;  // cannot be joined, must not be destroyed
  std::atomic<bool> stopping_ = false;
  alignas(64) std::atomic<uint32_t> epoch_ = 0;  // workers sleep on it
  alignas(64) std::atomic<uint32_t> gate_ = 0;   // see Note [One region, one gate]
  Job job_;
};

/// Never destroyed, so that destructors of other static objects may still call parallel_for; only
/// its threads end with the process.
Pool& pool() {
  static constinit MadeOnce<Pool> instance;
  struct Prepared {
    Prepared() {
      pthread_atfork(nullptr, nullptr, [] { instance.get().restart_after_fork(); });
      static const struct Retire {
        ~Retire() { instance.get().retire(); }
      } retire_at_exit;
    }
  };
  static constinit MadeOnce<Prepared> prepared;
  Pool& made = instance.get();
  prepared.get();
  return made;
}

}  // namespace

namespace detail {
void run_parallel(int64_t n, int64_t grain, RangeBody body) {
  pool().run(n, std::max<int64_t>(1, grain), body);
}
}  // namespace detail

int get_num_threads() { return pool().num_threads(); }

void set_num_threads(int n) {
  check(n >= 1 && n <= kMaxThreads, "set_num_threads: expected a number from 1 to ", kMaxThreads,
        ", got ", n);
  check(!in_parallel_region(), "set_num_threads: cannot be called inside a parallel region");
  pool().set_num_threads(n);
}

}  // namespace tensora
