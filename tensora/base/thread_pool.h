#pragma once

#include <cstdint>

#include "tensora/base/function_ref.h"

namespace tensora {

using RangeBody = FunctionRef<void(int64_t begin, int64_t end)>;

namespace detail {
extern constinit thread_local bool inside_parallel_region;
void run_parallel(int64_t n, int64_t grain, RangeBody body);
}  // namespace detail

/// How many threads, the caller included, a parallel region may use. Before the first
/// set_num_threads it is TENSORA_NUM_THREADS, else the number of hardware threads that this
/// process is allowed to run on.
int get_num_threads();

/// Takes effect for the regions that start afterwards; waits for a running one to end.
/// Throws if n < 1 or when called from inside a parallel region.
void set_num_threads(int n);

/// True while this thread executes the body of a region that runs on several threads.
inline bool in_parallel_region() { return detail::inside_parallel_region; }

/// Calls body(begin, end) for disjoint ranges that together cover [0, n).
///
/// Every range begins at a multiple of `grain` and holds at least `grain` items (the last one may
/// be shorter). The ranges depend only on n, grain and the number of threads, never on timing; who
/// runs which one is decided while running, so that a slow thread does not hold up the others.
///
/// The body runs inline, as a single range, when n <= grain, inside another region, or while
/// another thread is using the pool. If a body throws, ranges not yet begun are dropped and the
/// first exception reaches the caller.
inline void parallel_for(int64_t n, int64_t grain, RangeBody body) {
  if (n <= 0) return;
  if (n <= grain || in_parallel_region()) {
    body(0, n);
    return;
  }
  detail::run_parallel(n, grain, body);
}

}  // namespace tensora
