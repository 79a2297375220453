#pragma once

#include <time.h>

namespace tensora::testing {

/// Measures what a test's own thread computes, so that a bound on it holds on a busy machine too.
/// Instrumented code counts a fifth.
class ProcessorTime {
 public:
  double seconds() const { return (now() - begin_) / kSlowdown; }

 private:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr double kSlowdown = 5;
#else
  static constexpr double kSlowdown = 1;
#endif

  static double now() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  double begin_ = now();
};

}  // namespace tensora::testing
