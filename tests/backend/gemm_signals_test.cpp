// Signals that arrive while a product runs, as a profiler's or Ctrl-C's do: a kernel that uses the
// stack pointer for something else lets them overwrite memory.
#include <signal.h>
#include <sys/time.h>

#include <atomic>

#include "tests/helpers.h"

namespace tensora {
namespace {

std::atomic<int> arrived = 0;  // any thread may receive the signal

/// A SIGALRM every half millisecond.
class Alarms {
 public:
  Alarms() {
    struct sigaction action = {};
    action.sa_handler = [](int) { ++arrived; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &previous_);
    every(500);
  }
  ~Alarms() {
    every(0);
    sigaction(SIGALRM, &previous_, nullptr);
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

 private:
  static void every(suseconds_t microseconds) {
    const itimerval time = {{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &time, nullptr);
  }
  struct sigaction previous_ = {};
};

TEST(GemmSignals, DoNotDisturbProducts) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const Tensor x = randn({300, 300}).to(dtype), expected = matmul(x, x);
    const Alarms alarms;
    arrived = 0;
    for (int i = 0; i < 100000 && arrived < 300; ++i)
      ASSERT_TRUE(equal(matmul(x, x), expected)) << dtype << ", product " << i;
    EXPECT_GE(arrived, 300);
  }
}

}  // namespace
}  // namespace tensora
