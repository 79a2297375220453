#include "tensora/dispatch/memory_watch.h"

#include "tensora/dispatch/profiler.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(MemoryWatch, TellsApartWhatAStepUses) {
  const Tensor w = randn({512, 512}, {.requires_grad = true}), state = zeros({512, 512});
  const Tensor x = randn({1024, 512});
  const MemoryWatch watch;
  {
    const Tensor hidden = relu(matmul(x, w)), out = matmul(hidden, w);
    out.sum().backward();
  }
  const std::vector<Tensor> parameters{w, w.view({-1})}, states{state};
  const MemoryUse use = watch.report(parameters, states);
  EXPECT_EQ(use.parameters, static_cast<uint64_t>(kMiB));
  EXPECT_EQ(use.gradients, static_cast<uint64_t>(kMiB));
  EXPECT_EQ(use.optimizer_state, static_cast<uint64_t>(kMiB));
  EXPECT_GE(use.activations, static_cast<uint64_t>(4 * kMiB));  // the product, its relu, the output
  EXPECT_EQ(use.peak,
            use.parameters + use.gradients + use.optimizer_state + use.other + use.activations);
  const std::string table = use.table();
  for (const char* part : {"peak memory on cpu", "parameters", "gradients", "activations", "1.00"})
    EXPECT_TRUE(contains(table, part)) << table;
}

TEST(MemoryWatch, StartsAnew) {
  { const Tensor large = zeros({64 * kMiB / 4}); }
  const MemoryWatch watch;
  const Tensor small = zeros({kMiB / 4});
  EXPECT_LT(watch.report().activations, static_cast<uint64_t>(8 * kMiB));
  EXPECT_GE(watch.report().activations, static_cast<uint64_t>(kMiB));
}

TEST(Profiler, TheTableListsOpsByTheirOwnTime) {
  const Profiler profiler;
  {
    const ProfilerRange outer("outer");
    for (int i = 0; i < 3; ++i) matmul(randn({128, 128}), randn({128, 128}));
  }
  const std::string table = profiler.table();
  EXPECT_TRUE(contains(table, "self ms"));
  EXPECT_TRUE(contains(table, "share"));
  const size_t inner = table.find("\nmatmul"), outer = table.find("\nouter");
  ASSERT_NE(inner, std::string::npos) << table;
  ASSERT_NE(outer, std::string::npos) << table;
  EXPECT_LT(inner, outer) << table;  // the scope itself does next to nothing
  EXPECT_EQ(profiler.table(0).find("\nmatmul"), std::string::npos);
}

}  // namespace
}  // namespace tensora::testing
