#include "tensora/distributed/window.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bit>
#include <climits>

namespace tensora::distributed {

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
                  std::endian::native == std::endian::little,
              "the system waits for the lower half of the counter, at the same address");

void Signal::raise_to(uint64_t target) {
  // Sequentially consistent, as is the sleeper's side: either this sees the sleeper, or the sleeper
  // sees the new value.
  value.store(target, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0)
    ::syscall(SYS_futex, &value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Signal::sleep_before(uint64_t target) {
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t seen = value.load(std::memory_order_seq_cst);
  if (seen < target) {
    const timespec span{0, 50'000'000};
    ::syscall(SYS_futex, &value, FUTEX_WAIT, static_cast<uint32_t>(seen), &span, nullptr, 0);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace tensora::distributed
