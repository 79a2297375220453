// compile(): a function's body runs at every call, and its kernels are fused.
#include "tensora/jit/compile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tensora/jit/stats.h"
#include "tensora/tensora.h"
#include "tests/temporary_folder.h"

namespace tensora::test {
namespace {

std::vector<float> values(const Tensor& tensor) { return to_vector<float>(tensor); }

/// How many kernels a call takes.
template <class Function>
uint64_t launches(const Function& function) {
  const uint64_t before = jit::stats().launches;
  function();
  return jit::stats().launches - before;
}

TEST(Compile, TheBodyActsAtEveryCall) {
  Tensor scale = ones({4});
  int calls = 0;
  bool negative = false;
  const auto f = compile([&](const Tensor& x) {
    ++calls;
    const Tensor y = x * scale + calls;
    return negative ? -y : y;
  });
  const Tensor x = ones({4});
  EXPECT_EQ(values(f(x)), values(x + 1));
  EXPECT_EQ(values(f(x)), values(x + 2));
  scale = full({4}, 3.0);  // captured, and replaced
  negative = true;
  EXPECT_EQ(values(f(x)), values(-(x * 3 + 3)));
  scale.fill_(5);  // and changed
  EXPECT_EQ(values(f(x)), values(-(x * 5 + 4)));
}

TEST(Compile, ResultsThatAreKeptStayAsTheyWere) {
  const auto f = compile([](const Tensor& x) { return (x * 2).relu(); });
  std::vector<Tensor> kept;
  for (int i = 0; i < 5; ++i) kept.push_back(f(full({8}, i)));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(values(kept[static_cast<size_t>(i)]), values(full({8}, 2.0 * i)));
}

// A program's tiles are narrower than the array, and take its rows in another order.
TEST(Compile, ExtremaOfZerosHaveEagersSign) {
  Tensor x = zeros({9, 130}, {.dtype = kBFloat16});
  x.slice(0, 2, {}, 2).neg_();
  const Tensor high = (x - 0).index_fill_(0, tensor({0}, {.dtype = kInt64}), -1).t();
  const auto body = [](const Tensor& in) {
    return std::vector<Tensor>{amax(in, {-1}, true) - in, amin(-in, {-1}, true) - in};
  };
  const auto fast = compile(body, {.fuse = Fuse::everything, .strict = true});
  const std::vector<Tensor> eager = body(high), fused = fast(high);
  for (size_t i = 0; i < eager.size(); ++i)
    EXPECT_TRUE(equal(fused[i].contiguous().view(kInt16), eager[i].contiguous().view(kInt16)))
        << "result " << i;
}

TEST(Compile, PlansAreMadeOncePerShape) {
  const auto f = compile([](const Tensor& x, double lr) { return (x * lr + 1).tanh(); });
  f(ones({37, 3}), 0.1);
  const uint64_t before = jit::stats().plans;
  for (int i = 0; i < 4; ++i) f(ones({37, 3}), 0.2 * i);  // numbers are parameters
  EXPECT_EQ(jit::stats().plans, before);
  f(ones({38, 3}), 0.1);
  EXPECT_EQ(jit::stats().plans, before + 1);
}

TEST(Compile, CountsOfKernels) {
  const Tensor x = randn({64, 48}), w = randn({48}), b = randn({48});
  const auto count = [](const auto& body) {
    return launches([&] { compile(body, {.fuse = Fuse::everything, .strict = true})(); });
  };
  EXPECT_EQ(count([&] { return (gelu(x * w + b) * sigmoid(x)).neg(); }), 1u);
  EXPECT_EQ(count([&] { return x.transpose(0, 1) * 2 + w.unsqueeze(1); }), 1u);
  const auto two_results = [&] {
    const Tensor y = x + 1;
    return std::pair(y * 2, y.exp());
  };
  EXPECT_EQ(count(two_results), 1u);
  EXPECT_EQ(count([&] { return (x.to(kBFloat16) * 2).to(kFloat32) + x.to(kInt32); }), 1u);
  // Another shape is another kernel, and so is what a product separates.
  EXPECT_EQ(count([&] { return std::pair((x + 1) * 2, (w - 1) * 2); }), 2u);
  EXPECT_EQ(count([&] { return matmul((x + 1) * 2, x.transpose(0, 1)).relu() + 1; }), 3u);
  // Row programs.
  EXPECT_EQ(count([&] { return softmax(x * 0.5 + b, -1) * 2; }), 1u);
  const auto norm = [&] {
    const Tensor d = x - x.mean({-1}, true);
    return d * rsqrt(d.square().mean({-1}, true) + 1e-5) * w + b;
  };
  EXPECT_EQ(count(norm), 1u);
  EXPECT_EQ(count([&] { return (x * x).sum({-1}).sqrt().unsqueeze(1) * x; }), 1u);
}

TEST(Compile, ManyResultsTakeSeveralKernels) {
  const Tensor x = randn({64, 48}), column = randn({64, 1});
  const auto body = [&] {
    std::vector<Tensor> kept;
    Tensor y = x;
    for (int i = 0; i < 20; ++i) kept.push_back(y = i == 7 ? y + y.amax({1}, true) : y * 0.9 + i);
    for (int i = 0; i < 5; ++i) kept.push_back(column.mul_(2) * 1);
    return kept;
  };
  const Tensor before = column.clone();
  const std::vector<Tensor> eager = body();
  column.copy_(before);
  std::vector<Tensor> fused;
  const auto f = compile(body, {.fuse = Fuse::everything, .strict = true});
  EXPECT_LE(launches([&] { fused = f(); }), 5u);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_EQ(values(fused[i]), values(eager[i])) << i;
}

// A kernel's results are apart, even where one overwrites what nobody reads after the kernel.
TEST(Compile, ResultsDoNotTakeMemoryThatIsOverwritten) {
  const Tensor x = randn({40, 300}), y = randn({40, 300});
  const auto body = [&] {
    manual_seed(2);
    const Tensor m = x * 2, before = m.cumsum(0);
    m.add_(y);
    return std::vector<Tensor>{before, m * 3, dropout(m, 0.5) + 1, m.sum({0})};
  };
  const std::vector<Tensor> eager = body();
  const std::vector<Tensor> fused = compile(body, {.fuse = Fuse::everything, .strict = true})();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(values(fused[i]), values(eager[i])) << i;
  EXPECT_TRUE(allclose(fused[3], eager[3], 1e-4, 1e-4));
}

TEST(Compile, WhatNobodySeesIsNotComputed) {
  const Tensor x = randn({300});
  const auto body = [&] {
    const Tensor unused = (x * 2).exp();
    return (x + 1) * 3;
  };
  EXPECT_EQ(launches([&] { compile(body, {.strict = true})(); }), 1u);
  EXPECT_EQ(launches([&] { compile([&] { (x * 2).exp(); }, {.strict = true})(); }), 0u);
}

TEST(Compile, EqualOpsRunOnce) {
  const Tensor x = randn({300}), w = randn({300});
  const auto twice = [&] { return matmul(x, w) * 2 + matmul(x, w); };
  const auto f = compile(twice);
  EXPECT_EQ(values(f()), values(twice()));
  EXPECT_NE(f.explain().find("left out: 1 ops that equal"), std::string::npos) << f.explain();
  EXPECT_EQ(values(f()), values(twice()));  // by the plan that was kept
  // Numbers are parameters of a plan: where they were equal once, they may differ next time.
  const auto scaled =
      compile([&](double p, double q) { return x * p + w + (x * p + w) * q + x * q; });
  for (const auto& [p, q] : {std::pair(2.0, 2.0), {2.0, 3.0}, {3.0, 3.0}, {3.0, 2.0}})
    EXPECT_EQ(values(scaled(p, q)), values(x * p + w + (x * p + w) * q + x * q));
  // What is written in between, or drawn, or kept by the caller, is not equal.
  const auto changed = [&] {
    const Tensor y = x * 1, a = y.sum();
    y.add_(1);
    return a * 1000 + y.sum();
  };
  EXPECT_EQ(values(compile(changed)()), values(changed()));
  const auto drawn = [] {
    manual_seed(3);
    return rand({8}) - rand({8});
  };
  EXPECT_EQ(values(compile(drawn)()), values(drawn()));
  const auto both = compile([&] { return std::pair(x.sum(), x.sum()); })();
  EXPECT_FALSE(both.first.shares_storage(both.second));
  const auto written = [&] {
    const Tensor a = x.sum(), b = x.sum();
    a.mul_(3);
    return a + b;
  };
  EXPECT_EQ(values(compile(written)()), values(written()));
}

TEST(Compile, UnusedOpsDoNotRun) {
  const Tensor x = randn({64, 8});
  const auto body = [&] {
    const Tensor unused = x.sum({1});
    unused.add_(1);
    return x.cumsum(0);
  };
  EXPECT_EQ(launches([&] { compile(body)(); }), 1u);
  // An op that may fail runs: the mistake is the same as eagerly.
  const Tensor place = tensor({99}, {.dtype = kInt64});
  EXPECT_THROW(compile([&] { index_select(x, 0, place); })(), Error);
}

TEST(Compile, ProfileTellsTimes) {
  const Tensor x = randn({64, 64});
  const std::string text = compile([&] { return (x * 2 + 1).relu(); }).profile();
  EXPECT_NE(text.find(" us, "), std::string::npos) << text;
  EXPECT_NE(text.find("32784 bytes instead of 98320"), std::string::npos) << text;
}

TEST(Compile, PlansAreDumped) {
  const testing::TemporaryFolder folder;
  ::setenv("TENSORA_JIT_DUMP", folder.path().c_str(), 1);
  const Tensor x = randn({17, 5});
  compile([&] { return (x * 2 + 1).relu(); })();
  ::unsetenv("TENSORA_JIT_DUMP");
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::ifstream file(entry.path());
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  for (const char* part :
       {"# recorded", "= relu(", "# kernels", "walk [17, 5]", "# program", "# code"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in:\n" << text;
}

TEST(Compile, RowProgramsComputeWhatEagerDoes) {
  manual_seed(4);
  const Tensor x = randn({64, 48}), w = randn({48}), b = randn({48});
  const auto expect_near = [](const auto& body) {
    const auto eager = values(body()), fused = values(compile(body, {.fuse = Fuse::everything})());
    ASSERT_EQ(eager.size(), fused.size());
    for (size_t i = 0; i < eager.size(); ++i)
      ASSERT_NEAR(fused[i], eager[i], 1e-5 * (1 + std::abs(eager[i]))) << i;
  };
  expect_near([&] { return softmax(x * 0.5 + b, -1) * 2; });
  expect_near([&] { return log_softmax(x.exp(), -1).exp(); });
  expect_near([&] {
    const Tensor d = x - x.mean({-1}, true);
    return d * rsqrt(d.square().mean({-1}, true) + 1e-5) * w + b;
  });
  expect_near([&] { return (x * x).sum({-1}).sqrt().unsqueeze(1) * x; });
  expect_near([&] {
    const Tensor leaf = x.clone().requires_grad_();
    (softmax(leaf * w, -1) * b).sum().backward();
    return leaf.grad();
  });
}

TEST(Compile, WideValuesAreRoundedOnceAtTheEnd) {
  manual_seed(8);
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const Tensor x = randn({40, 333}).to(dtype), o = randn({333}).to(dtype);
    const auto body = [](const Tensor& a, const Tensor& b) {
      const Tensor y = (a * b + 0.3).relu() * 1.7 - b;
      return y * y + a;
    };
    const Tensor rounded_once = body(x.to(kFloat32), o.to(kFloat32)).to(dtype);
    const auto wide = compile(body, {.fuse = Fuse::everything, .strict = true, .wide = true});
    EXPECT_EQ(values(wide(x, o).to(kFloat32)), values(rounded_once.to(kFloat32)));
    EXPECT_EQ(wide(x, o).dtype(), dtype);
    EXPECT_NE(values(body(x, o).to(kFloat32)), values(rounded_once.to(kFloat32)));
    // What somebody reads is rounded, and so is what reductions and rows read.
    const auto kept = [](const Tensor& a, const Tensor& b) {
      const Tensor y = a * b;
      return std::pair(y, y + 0.3);
    };
    const auto [first, second] =
        compile(kept, {.fuse = Fuse::everything, .strict = true, .wide = true})(x, o);
    EXPECT_EQ(values(second.to(kFloat32)), values((first + 0.3).to(kFloat32)));
    const auto rows = [](const Tensor& a, const Tensor& b) {
      return softmax(a * b + 1, -1) * (a + b).sum({-1}, true);
    };
    const std::vector<float> near = values(
        compile(rows, {.fuse = Fuse::everything, .strict = true, .wide = true})(x, o).to(kFloat32));
    const std::vector<float> eager = values(rows(x, o).to(kFloat32));
    for (size_t i = 0; i < eager.size(); ++i)
      ASSERT_NEAR(near[i], eager[i], 0.1 * (0.05 + std::abs(eager[i]))) << i;
  }
}

TEST(Compile, TransposedOperandsAreReadInPanels) {
  manual_seed(6);
  for (const DType dtype : {kFloat32, kBFloat16, kFloat64})
    for (const auto& [rows, columns] : {std::pair(150, 333), {16, 128}, {3, 700}, {65, 1025}}) {
      SCOPED_TRACE(concat(dtype, " ", rows, " x ", columns));
      const Tensor x = randn({2, rows, columns}).to(dtype);
      const Tensor t = randn({columns, rows}).to(dtype).transpose(0, 1);
      const Tensor u = randn({2, columns, rows}).to(dtype).transpose(1, 2), mask = t > 0;
      const auto body = [&] { return where(mask, x * t + u, u) - t; };
      EXPECT_EQ(values(compile(body, {.fuse = Fuse::everything})().to(kFloat32)),
                values(body().to(kFloat32)));
    }
}

TEST(Compile, TrainingStepEqualsEager) {
  const auto losses = [](bool compiled) {
    manual_seed(11);
    const Tensor x = randn({16, 12}), target = randn({16, 3});
    const Tensor w = randn({12, 3}).requires_grad_(), b = zeros({3}).requires_grad_();
    double lr = 0.1;
    const auto body = [&](const Tensor& input) {
      const Tensor loss = (gelu(matmul(input, w) + b) - target).square().mean();
      loss.backward();
      const no_grad silent;
      for (const Tensor& p : {w, b}) {
        p.sub_(p.grad() * lr);
        p.set_grad({});
      }
      return loss.detach();
    };
    const auto fast = compile(body);
    std::vector<float> result;
    for (int i = 0; i < 8; ++i, lr *= 0.9)
      result.push_back((compiled ? fast(x) : body(x)).item<float>());
    for (float value : values(w.detach())) result.push_back(value);
    return result;
  };
  const std::vector<float> eager = losses(false), fused = losses(true);
  ASSERT_EQ(eager.size(), fused.size());
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(fused[i], eager[i], 1e-5) << i;
}

TEST(Compile, AnExceptionLeavesEagersState) {
  const Tensor x = zeros({3});
  const auto f = compile([&](bool fails) {
    x.add_(1);
    check(!fails, "stop");
    x.add_(10);
  });
  f(false);
  EXPECT_THROW(f(true), Error);
  EXPECT_EQ(values(x), (std::vector<float>{12, 12, 12}));
}

TEST(Compile, AliasedInputsAndEmptyOnes) {
  const auto f = compile([](const Tensor& a, const Tensor& b) {
    a.mul_(2);
    return (b + a).relu() + a;
  });
  const Tensor one = ones({4, 4}), two = ones({4, 4});
  EXPECT_EQ(values(f(one, two)), values(full({4, 4}, 5.0)));
  EXPECT_EQ(values(f(one, one)), values(full({4, 4}, 12.0)));
  const Tensor base = ones({5, 4});
  EXPECT_EQ(values(f(base.slice(0, 0, 4), base.slice(0, 1, 5))).front(), 6.0f);
  EXPECT_EQ(f(ones({0, 4}), ones({0, 4})).numel(), 0);
}

TEST(Compile, ThreadsMayCallOneFunction) {
  const auto f = compile([](const Tensor& x) { return (x * 2 + 1).relu(); });
  std::vector<std::thread> threads;
  std::vector<Tensor> results(4);
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) results[t] = f(full({64}, static_cast<double>(t)));
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < results.size(); ++t)
    EXPECT_EQ(values(results[t]), values(full({64}, 2.0 * static_cast<double>(t) + 1)));
}

TEST(Compile, ExplainNamesKernelsBreaksAndRefusals) {
  const auto f = compile(
      [](const Tensor& x) {
        Tensor y = (x + 1).relu();
        if (y.sum().item<float>() < 0) return y;
        return matmul(y * 2 + 1, x).cumsum(0);
      },
      {.name = "sample"});
  const std::string text = f.explain(ones({6, 6}));
  for (const char* part : {"add relu", "ended by the host reads", "mul add", "cumsum", "sample:"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in:\n" << text;
}

}  // namespace
}  // namespace tensora::test
