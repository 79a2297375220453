// Programs of tests/jit/mixed_program.h: however they run, they leave the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/jit/mixed_program.h"

namespace tensora::test {
namespace {

/// TENSORA_SOAK=n runs n times as many programs, TENSORA_SOAK_SEED=s others.
uint64_t number_of(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}
uint64_t programs() { return 150 * std::max<uint64_t>(1, number_of("TENSORA_SOAK", 1)); }
uint64_t first_program() { return number_of("TENSORA_SOAK_SEED", 0); }

using Runner = std::function<void(const std::function<void()>&)>;

Outcome outcome_of(uint64_t seed, uint64_t draw, Habits habits, const Runner& runner) {
  const std::vector<Tensor> inputs = inputs_of(seed, draw);
  const Tensor captured = numbers({3, 4}, kFloat32, 9);
  Generator generator(draw + 3);
  const GeneratorScope drawing(generator);
  MixedProgram program(seed, habits);
  std::string mistake;
  try {
    runner([&] { program.run(inputs, captured); });
  } catch (const std::exception& error) {
    mistake = error.what();
  }
  Outcome result = program.outcome(inputs, captured);
  result.texts.push_back(mistake);
  result.tensors.push_back(rand({3}));  // the stream goes on where eager's does
  return result;
}

void expect_same_tensors(std::span<const Tensor> actual, std::span<const Tensor> expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const Tensor &a = actual[i], &e = expected[i];
    ASSERT_EQ(a.dtype(), e.dtype()) << "tensor " << i;
    ASSERT_EQ(to_string(a.sizes()), to_string(e.sizes())) << "tensor " << i;
    ASSERT_EQ(to_string(a.strides()), to_string(e.strides())) << "tensor " << i;
    const Tensor p = a.contiguous(), q = e.contiguous();
    const auto* const left = static_cast<const std::byte*>(p.numel() ? p.data_ptr() : nullptr);
    const auto* const right = static_cast<const std::byte*>(q.numel() ? q.data_ptr() : nullptr);
    const size_t at =
        static_cast<size_t>(std::mismatch(left, left + p.nbytes(), right).first - left);
    ASSERT_EQ(at, p.nbytes()) << "tensor " << i << ", " << a.dtype() << " " << a.sizes()
                              << ", element " << at / element_size(a.dtype()) << ": " << p
                              << " instead of " << q;
    for (size_t k = 0; k < i; ++k)
      ASSERT_EQ(a.shares_storage(actual[k]), e.shares_storage(expected[k]))
          << "tensors " << k << " and " << i;
  }
}
void expect_same(const Outcome& actual, const Outcome& expected) {
  EXPECT_EQ(actual.texts, expected.texts);
  expect_same_tensors(actual.tensors, expected.tensors);
}

void run_eagerly(const std::function<void()>& body) { body(); }
Runner lazily(Fuse fuse) {
  return [fuse](const std::function<void()>& body) {
    const LazyScope lazy({.fuse = fuse, .strict = true});
    body();
  };
}

Habits habits_of(uint64_t program) {
  return {.reads = program % 3 == 0,
          .gradients = program % 4 == 1,
          .drops = program % 4 == 2,
          .stops = program % 5 == 0};
}

TEST(RandomDTypes, LazyAndCompiledEqualEager) {
  for (uint64_t i = 0; i < 2 * programs(); ++i) {
    const uint64_t program = first_program() + i;
    SCOPED_TRACE(concat("program ", program));
    const Habits habits = habits_of(program);
    const Outcome eager = outcome_of(program, 1, habits, run_eagerly);
    for (const Fuse fuse : {Fuse::nothing, Fuse::what_pays, Fuse::everything}) {
      SCOPED_TRACE(concat("fuse ", static_cast<int>(fuse)));
      expect_same(outcome_of(program, 1, habits, lazily(fuse)), eager);
      if (testing::Test::HasFailure()) return;
    }
    const Runner compiled = [](const std::function<void()>& body) {
      compile(body, {.fuse = Fuse::everything, .strict = true})();
    };
    expect_same(outcome_of(program, 2, habits, compiled),  // the kept plans, with other values
                outcome_of(program, 2, habits, run_eagerly));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RandomDTypes, ReplayEqualsEager) {
  const no_grad silent;
  uint64_t replayed = 0;
  for (uint64_t i = 0; i < programs(); ++i) {
    const uint64_t program = first_program() + i;
    SCOPED_TRACE(concat("program ", program));
    const Habits habits{
        .reads = program % 7 == 0, .drops = program % 2 == 0, .replays = program % 5 != 0};
    const Tensor captured = numbers({3, 4}, kFloat32, 9), captured_too = captured.clone();
    const auto running = [program, habits](const Tensor& capture) {
      return [capture, program, habits](const std::vector<Tensor>& in) {
        MixedProgram one(program, habits);
        one.run(in, capture);
        return one.results();
      };
    };
    const auto fast =
        compile(running(captured), {.fuse = Fuse::everything, .strict = true, .replay = true});
    std::vector<Tensor> all, all_expected;
    for (uint64_t draw = 0; draw < 5; ++draw) {
      const std::vector<Tensor> here = inputs_of(program, draw), there = inputs_of(program, draw);
      const auto add = [](std::vector<Tensor>& list, const auto& more) {
        list.insert(list.end(), more.begin(), more.end());
      };
      manual_seed(draw);
      add(all_expected, running(captured_too)(there));
      manual_seed(draw);
      add(all, fast(here));
      add(all, here);
      add(all_expected, there);
    }
    all.push_back(captured);
    all_expected.push_back(captured_too);
    expect_same_tensors(all, all_expected);
    if (testing::Test::HasFailure()) return;
    replayed += fast.replayed();
  }
  EXPECT_GT(replayed, programs() / 2);
}

// Chains of two casts, of numbers that every dtype on the way can hold, or of any bits.
TEST(RandomDTypes, CastsEqualEager) {
  std::mt19937_64 random(3);
  for (const Shape& sizes : {Shape{16, 64}, Shape{7, 131}})
    for (const bool wild : {false, true}) {
      Tensor bits = empty(sizes, {.dtype = kInt64});
      for (int64_t i = 0; i < bits.numel(); ++i)
        bits.data_ptr<int64_t>()[i] =
            wild ? static_cast<int64_t>(random()) : int64_t(random() % 100);
      for (const DType a : kAny)
        for (const DType b : kAny)
          for (const DType c : kAny) {
            // A float that does not fit into an integer has no value there.
            if (wild && is_floating_point(a) && !is_floating_point(b)) continue;
            if (wild && is_floating_point(b) && !is_floating_point(c)) continue;
            SCOPED_TRACE(concat(a, " to ", b, " to ", c, wild ? ", wild" : ""));
            const Tensor x = is_floating_point(a) ? (bits.to(kFloat64) / 7).to(a) : bits.to(a);
            const auto body = [&] {
              const Tensor once = x.to(b), twice = once.to(c);
              return std::vector<Tensor>{once, twice, twice == once};
            };
            expect_same_tensors(compile(body, {.fuse = Fuse::everything, .strict = true})(),
                                body());
            if (testing::Test::HasFailure()) return;
          }
    }
}

TEST(RandomDTypes, ThreadsEqualEager) {
  const uint64_t each = programs() / 3;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < each && !testing::Test::HasFailure(); ++i) {
        const uint64_t program = first_program() + i;  // all threads want the same plans
        SCOPED_TRACE(concat("program ", program, " in thread ", t));
        const Habits habits = habits_of(program);
        const Outcome eager = outcome_of(program, t, habits, run_eagerly);
        expect_same(outcome_of(program, t, habits, lazily(Fuse::everything)), eager);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tensora::test
