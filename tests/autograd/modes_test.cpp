// The modes of a thread, and the settings of the process that they override.
#include <barrier>
#include <thread>

#include "tensora/autograd/checkpoint.h"
#include "tensora/core/determinism.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

// Runs two bodies in two threads; `meet` waits for the other one.
template <class First, class Second>
void interleave(First&& first, Second&& second) {
  std::barrier<> together(2);
  const auto meet = [&] { together.arrive_and_wait(); };
  std::thread other([&] { second(meet); });
  first(meet);
  other.join();
}

TEST(Modes, ScopesOfTwoThreadsDoNotDisturbOneAnother) {
  ASSERT_FALSE(is_deterministic());
  ASSERT_FALSE(is_anomaly_enabled());
  interleave(
      [](auto meet) {
        {
          const DeterministicScope on(true);
          const detect_anomaly watch;
          meet();  // 1: the other thread opens its scopes while ours are open
          meet();  // 2
          EXPECT_TRUE(is_deterministic() && is_anomaly_enabled());
        }
        EXPECT_FALSE(is_deterministic() || is_anomaly_enabled());
        meet();  // 3: and closes them after ours
      },
      [](auto meet) {
        meet();  // 1
        EXPECT_FALSE(is_deterministic() || is_anomaly_enabled());
        const DeterministicScope on(true);
        const detect_anomaly watch;
        meet();  // 2
        meet();  // 3
        EXPECT_TRUE(is_deterministic() && is_anomaly_enabled());
      });
  EXPECT_FALSE(is_deterministic());
  EXPECT_FALSE(is_anomaly_enabled());
}

TEST(Modes, ASettingOfTheProcessReachesEveryThreadOutsideAScope) {
  set_deterministic(true);
  set_detect_anomaly(true);
  std::thread([] { EXPECT_TRUE(is_deterministic() && is_anomaly_enabled()); }).join();
  {
    const DeterministicScope off(false);
    const detect_anomaly ignore(false);
    EXPECT_FALSE(is_deterministic() || is_anomaly_enabled());
    set_deterministic(false);
    set_deterministic(true);
    EXPECT_FALSE(is_deterministic());
  }
  EXPECT_TRUE(is_deterministic() && is_anomaly_enabled());
  set_deterministic(false);
  set_detect_anomaly(false);
}

TEST(Modes, ACheckpointRestoresThemAll) {
  const Tensor x = leaf({1});
  struct Seen {
    bool deterministic, anomaly, autocast, grad;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> seen;
  const auto body = [&](const Tensor& in) {
    seen.push_back(
        {is_deterministic(), is_anomaly_enabled(), is_autocast_enabled(), is_grad_enabled()});
    return in * in;
  };
  Tensor y;
  {
    const DeterministicScope deterministic(true);
    const detect_anomaly watch;
    const autocast lower(kBFloat16);
    y = checkpoint(body, x);
  }
  y.backward();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], (Seen{true, true, true, true}));
  EXPECT_EQ(seen[1], seen[0]);
  EXPECT_FALSE(is_deterministic() || is_anomaly_enabled() || is_autocast_enabled());
}

TEST(Modes, TravelAsOneValue) {
  Modes modes;
  {
    const no_grad silent;
    const DeterministicScope deterministic(true);
    modes = thread_state;
  }
  std::thread([&] {
    {
      const ModesScope as_there(modes);
      EXPECT_TRUE(is_deterministic());
      EXPECT_FALSE(is_grad_enabled());
    }
    EXPECT_FALSE(is_deterministic());
    EXPECT_TRUE(is_grad_enabled());
  }).join();
}

[[gnu::noinline]] Tensor function_with_a_name(const Tensor& x) {
  Tensor y = sqrt(x);
  return y;
}

TEST(Anomaly, TellsTheNamesOfFunctionsThatNobodyExports) {
  const Tensor x = leaf({-1, 4});
  const detect_anomaly watch;
  const Tensor y = function_with_a_name(x);
  const std::string text = error_of([&] { y.sum().backward(); });
  EXPECT_TRUE(contains(text, "function_with_a_name(tensora::Tensor const&)")) << text;
  EXPECT_TRUE(contains(text, "main")) << text;
}

}  // namespace
}  // namespace tensora::testing
