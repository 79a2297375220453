// What goes wrong on a real device: faults, forks, wrong indices in checked mode. Where the context
// is lost the test runs in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class FailureOnGpu : public Gpu {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    Gpu::SetUp();
  }
};

bool says(const std::string& message, std::string_view part) {
  const bool found = message.find(part) != std::string::npos;
  if (!found) std::fprintf(stderr, "'%s' is missing from: %s\n", part.data(), message.c_str());
  return found;
}

// Memory that no device has.
Tensor astray() { return from_blob(reinterpret_cast<void*>(0x10000), {1024}, {.device = kCuda}); }

[[noreturn]] void fault_and_leave() {
  const Tensor x = ones({1024}, {.device = kCuda});
  bool right = says(message_of([&] {
                      const Tensor y = tanh(exp(astray()));
                      synchronize(kCuda);
                    }),
                    "last ops launched: ");
  const std::string later = message_of([&] { x.sum().item(); });
  right &= says(later, "illegal") && says(later, "exp, tanh");
  // The context is gone, the process is not.
  right &= (ones({3}) + 1).sum().item<float>() == 6;
  _exit(right ? 0 : 1);
}

TEST_F(FailureOnGpu, AKernelFaultNamesTheLastOpsAndTheProcessGoesOn) {
  EXPECT_EXIT(fault_and_leave(), ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void checked_fault_and_leave() {
  cuda::set_checked(true);
  const Tensor x = ones({1024}, {.device = kCuda});
  bool right = says(message_of([&] { tanh(x); }), "nothing was thrown");
  right &= says(message_of([&] { tanh(exp(astray())); }), "the op 'exp' failed");
  _exit(right ? 0 : 1);
}

TEST_F(FailureOnGpu, CheckedModeNamesTheOpOfAFault) {
  EXPECT_EXIT(checked_fault_and_leave(), ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void fork_and_leave() {
  Tensor x = ones({10}, {.device = kCuda});
  synchronize(kCuda);
  const pid_t child = fork();
  if (child == 0) {
    bool right = says(message_of([&] { x + 1; }), "forked");
    right &= says(message_of([&] { x.cpu(); }), "forked");
    x = Tensor();
    right &= (ones({3}) + 1).sum().item<float>() == 6;
    _exit(right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  const bool goes_on = (x + 1).sum().item<float>() == 20;
  _exit(WIFEXITED(status) && WEXITSTATUS(status) == 0 && goes_on ? 0 : 1);
}

TEST_F(FailureOnGpu, AForkedChildIsToldAndTheParentGoesOn) {
  EXPECT_EXIT(fork_and_leave(), ::testing::ExitedWithCode(0), "");
}

TEST_F(FailureOnGpu, CheckedModeThrowsAWrongIndexAtItsOp) {
  const Tensor x = sample({4, 3}).cuda();
  const Tensor wrong = full({2}, 7, {.dtype = kInt64, .device = kCuda});
  cuda::set_checked(true);
  const std::string message = message_of([&] { index_select(x, 0, wrong); });
  cuda::set_checked(false);
  EXPECT_TRUE(says(message, "index 7 is out of bounds for dimension 0 with size 4"));
  EXPECT_NO_THROW(synchronize(kCuda));
  expect_close(x + 1, x.cpu() + 1, 0);
}

TEST_F(FailureOnGpu, OutOfMemoryIsSurvivedManyTimes) {
  const size_t total = size_t{1} << 30;
  empty_cache(kCuda);
  set_memory_limit(kCuda, memory_stats(kCuda).reserved + total);
  for (int round = 0; round < 5; ++round) {
    std::vector<Tensor> held;
    const std::string message = message_of([&] {
      for (int i = 0; i < 1000; ++i)
        held.push_back(full({(3 + i % 5) << 20}, i, {.dtype = kFloat32, .device = kCuda}));
    });
    EXPECT_TRUE(says(message, "out of memory") && says(message, "Largest live tensors"));
    EXPECT_GT(held.size(), 30u);
    for (size_t i = 0; i < held.size(); i += 7)
      EXPECT_EQ(held[i].amax().item<float>(), static_cast<float>(i));
  }
  set_memory_limit(kCuda, 0);
}

}  // namespace
}  // namespace tensora::test
