#pragma once

// The memory that the ranks of one host share, and the signals in it.

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensora/core/process_group.h"

namespace tensora::distributed {

/// A counter that one rank raises and the others wait for. Raising costs a system call only if
/// somebody sleeps.
struct alignas(64) Signal {
  std::atomic<uint64_t> value;
  std::atomic<uint32_t> sleepers;

  void raise_to(uint64_t target);
  bool reached(uint64_t target) const { return value.load(std::memory_order_acquire) >= target; }
  /// Sleeps until the value changes from what it was when it had not reached `target`, or for
  /// about a twentieth of a second.
  void sleep_before(uint64_t target);
};

/// One message from a rank to another.
struct alignas(64) Mailbox {
  static constexpr size_t kBytes = 64 << 10;
  Signal filled, emptied;
  CallSummary call;
  char data[kBytes];
};

/// What one rank of a host writes and all of them read. Filled with zeros at the start.
struct WindowHeader {
  static constexpr size_t kSlotBytes = 2 << 20;

  Signal posted;    // pieces whose data lie in their slot
  Signal summed;    // pieces whose part of the sum lies in its slot
  cpu_set_t cores;  // on which the rank may run
  alignas(64) CallSummary calls[2];
  alignas(4096) char slots[2][kSlotBytes];
};

/// The windows of all ranks of a group, in their order. Memory that MPI or the system has mapped.
class Windows {
 public:
  /// Bytes of one rank's window in a group of `ranks`.
  static size_t bytes(int ranks) {
    return sizeof(WindowHeader) + static_cast<size_t>(ranks) * sizeof(Mailbox);
  }
  Windows(int rank, std::vector<void*> bases) : rank_(rank), bases_(std::move(bases)) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(bases_.size()); }
  WindowHeader& of(int rank) const {
    return *static_cast<WindowHeader*>(bases_[static_cast<size_t>(rank)]);
  }
  WindowHeader& mine() const { return of(rank_); }
  Mailbox& mailbox(int from, int to) const {
    char* const boxes =
        static_cast<char*>(bases_[static_cast<size_t>(from)]) + sizeof(WindowHeader);
    return reinterpret_cast<Mailbox*>(boxes)[to];
  }

 private:
  int rank_;
  std::vector<void*> bases_;
};

}  // namespace tensora::distributed
