// Compiled functions where things go wrong: no memory, sizes that depend on data, spaces above
// 2^31 elements, bodies that throw, forks, disks without space. The right result, or an error.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tensora/jit/compile.h"
#include "tensora/jit/kernel_store.h"
#include "tensora/jit/stats.h"
#include "tests/helpers.h"
#include "tests/temporary_folder.h"

namespace tensora::test {
namespace {

using testing::contains;
using testing::error_of;
using testing::values;

TEST(JitBadInput, NoMemoryForAKernel) {
  const Tensor x = ones({4}), wide = ones({1}).expand({int64_t{1} << 50});
  for (const Fuse fuse : {Fuse::nothing, Fuse::what_pays, Fuse::everything}) {
    Tensor before, after;
    const auto f = compile(
        [&] {
          before = x + 1;
          after = ((wide + 1) * 2).relu();
        },
        {.fuse = fuse});
    for (int call = 0; call < 2; ++call) {
      EXPECT_TRUE(contains(error_of(f), "memory")) << error_of(f);
      EXPECT_EQ(values(before), values(x + 1));
      EXPECT_TRUE(contains(error_of([&] { after.data_ptr(); }), "has failed"));
      EXPECT_EQ(values(compile([&] { return x * 3; })()), values(x * 3));
    }
  }
}

TEST(JitBadInput, SizesThatDependOnData) {
  const no_grad silent;
  int bodies = 0;
  const auto body = [&](const Tensor& x) {
    ++bodies;
    const Tensor chosen = (x * 2).masked_select(x > 0);
    return std::pair((chosen + 1).relu(), nonzero(x) * 2);
  };
  const auto compiled = compile(body, {.fuse = Fuse::everything});
  const auto replayed = compile(body, {.fuse = Fuse::everything, .replay = true});
  for (const std::vector<double>& data :
       {std::vector<double>{1, -1, 2, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 3, 0}, {1, 2, 3, 4}}) {
    const Tensor x = tensor(data);
    const auto [chosen, places] = body(x);
    for (const auto* f : {&compiled, &replayed}) {
      const auto [a, b] = (*f)(x);
      EXPECT_EQ(values(a), values(chosen));
      EXPECT_EQ(values(b), values(places));
    }
  }
  EXPECT_EQ(bodies, 15);
  EXPECT_EQ(replayed.replayed(), 0u);
}

TEST(JitBadInput, EmptyTensorsAreReplayed) {
  const no_grad silent;
  const auto body = [](const Tensor& x) {
    return std::pair((x * 2 + 1).sum({0}), cat({x, x}).relu() - 1);
  };
  const auto f = compile(body, {.fuse = Fuse::everything, .strict = true, .replay = true});
  for (int call = 0; call < 4; ++call)
    for (const Shape& sizes : {Shape{0, 3}, Shape{3, 0}, Shape{0}}) {
      const Tensor x = ones(sizes);
      const auto [sums, rest] = f(x);
      EXPECT_EQ(values(sums), values(body(x).first));
      EXPECT_EQ(rest.sizes(), body(x).second.sizes());
    }
  EXPECT_EQ(f.replayed(), 6u);
}

// 2.4e9 elements, none of which is stored.
TEST(JitBadInput, SpacesAboveTwoToTheThirtyFirst) {
  const int64_t rows = 40'000, columns = 60'000;
  const Tensor x = arange(rows, {.dtype = kFloat32}).unsqueeze(1);
  const Tensor row = (arange(columns) % 1001).to(kFloat32);
  const uint64_t before = jit::stats().launches;
  const Tensor largest = compile([&] { return (x + row).relu().amax({-1}); },
                                 {.fuse = Fuse::everything, .strict = true})();
  EXPECT_EQ(jit::stats().launches, before + 1);
  EXPECT_EQ(values(largest), values(arange(rows, {.dtype = kFloat32}) + 1000));
}

TEST(JitBadInput, BodiesThatThrow) {
  const no_grad silent;
  const Tensor count = zeros({1});
  bool fails = false;
  const auto f = compile(
      [&](const Tensor& x) {
        count.add_(1);
        const Tensor y = x * 2 + count;
        check(!fails, "the body stops");
        return y.relu();
      },
      {.replay = true});
  const Tensor x = ones({5});
  for (int call = 1; call <= 8; ++call) {
    // Once while recordings are made, later on another signature.
    fails = call == 2 || call == 6;
    const Tensor given = call == 6 ? ones({6}) : x;
    if (fails) {
      EXPECT_TRUE(contains(error_of([&] { f(given); }), "the body stops"));
    } else {
      EXPECT_EQ(values(f(given)), values(given * 2 + call)) << call;
    }
    EXPECT_EQ(count.item<float>(), call);
  }
  EXPECT_GT(f.replayed(), 0u);
}

TEST(JitBadInput, CapturedTensorsThatAreReplaced) {
  const no_grad silent;
  Tensor weight = ones({4});
  const auto body = [&](const Tensor& x) { return (x * weight).relu(); };
  const auto lazily = compile(body), checked = compile(body, {.replay = true, .verify = 1});
  const Tensor x = full({4}, 3.0);
  for (int call = 1; call <= 4; ++call) EXPECT_EQ(values(checked(x)), values(x));
  for (int call = 1; call <= 4; ++call) {
    weight = full({4}, double(call));
    EXPECT_EQ(values(lazily(x)), values(x * call));
  }
  EXPECT_TRUE(contains(error_of([&] { checked(x); }), "out of date"));
}

/// Whether `body` returns true in a child; one that hangs is ended by a signal.
template <class Body>
bool in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool right = false;
    try {
      right = body();
    } catch (...) {  // NOLINT: the child ends either way
    }
    _exit(right ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

// Children find plans, kernels, recordings and counts usable, whatever other threads did.
TEST(JitBadInput, ForkWhileOthersCompileAndReplay) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers do not work in such a child";
#endif
  const no_grad silent;
  const auto body = [](const Tensor& x) { return softmax(x * 2 + 1, -1) + x.relu(); };
  const auto f = compile(body, {.fuse = Fuse::everything, .replay = true});
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const no_grad quiet;
      for (int64_t i = 0; !done; ++i) f(ones({1 + (t + i) % 50, 8}));
    });
  int right = 0;
  constexpr int kForks = 20;
  for (int i = 0; i < kForks; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(200 + 61 * i));
    right += in_child([&] {
      const Tensor x = ones({3 + i, 8});
      return allclose(f(x), body(x)) && allclose(f(x), body(x)) && jit::stats().tapes > 0;
    });
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kForks);
}

TEST(JitBadInput, ADiskWithoutSpace) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path place = std::filesystem::path(folder.path()) / "kernels";
  const std::string key =
      jit::key_of({.text = "kernel", .architecture = "sm_90", .compiler = "NVRTC 13.0"});
  jit::StoredKernel kernel;
  kernel.code.assign(100'000, 'x');
  EXPECT_TRUE(in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    jit::KernelStore store({.folder = place});
    return !store.put(key, kernel) && !store.find(key);
  }));
  jit::KernelStore store({.folder = place});
  const uint64_t damaged = jit::kernel_statistics().damaged;
  EXPECT_FALSE(store.find(key));  // nothing is left of it
  EXPECT_TRUE(store.list().empty());
  EXPECT_EQ(jit::kernel_statistics().damaged, damaged);
  EXPECT_TRUE(store.put(key, kernel));
  EXPECT_TRUE(store.find(key));
}

}  // namespace
}  // namespace tensora::test
