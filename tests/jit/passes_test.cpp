// What the passes make of known functions: how many kernels, and which bytes they move.
#include <gtest/gtest.h>

#include <cstring>

#include "tensora/core/backend.h"
#include "tensora/jit/compile.h"
#include "tensora/jit/stats.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         (x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0);
}

/// What a compiled call of `body` took. Its results have eager's bits, with a new plan and with one
/// that was found.
template <class Body>
jit::Stats expect_eagers_bits(const Body& body, JitOptions options = {}) {
  options.strict = true;
  const Tensor expected = body();
  const auto compiled = compile(body, options);
  jit::Stats after;
  for (int call = 0; call < 2; ++call) {
    const jit::Stats before = jit::stats();
    const Tensor result = compiled();
    EXPECT_TRUE(same_bits(result, expected)) << result.dtype() << " " << result.sizes();
    after = jit::stats();
    after.launches -= before.launches;
    after.bytes -= before.bytes;
    after.eager_bytes -= before.eager_bytes;
  }
  return after;
}

// ---- copies and numbers -------------------------------------------------------------------------

TEST(CopySteps, ACopyIsPartOfItsNeighboursKernel) {
  manual_seed(1);
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kInt64, kBool}) {
    SCOPED_TRACE(concat(dtype));
    const Tensor x = (randn({600, 300}) > 0).to(dtype);
    EXPECT_EQ(expect_eagers_bits([&] { return (x * x).clone() * x; }).launches, 1u);
    EXPECT_EQ(expect_eagers_bits([&] { return x.t().contiguous() * x.t() * 2; }).launches, 1u);
    EXPECT_EQ(expect_eagers_bits([&] {
                const Tensor to = empty({600, 300}, {.dtype = dtype});
                to.copy_(x * x);
                return to * x;
              }).launches,
              1u);
    EXPECT_EQ(expect_eagers_bits([&] {
                const Tensor to = x.clone();
                to.select(0, 3).copy_(x.select(0, 4) * 1);
                to.slice(0, 0, 300).copy_(to.slice(0, 1, 301) * 1);
                return to;
              }).launches,
              4u);
  }
}

TEST(CopySteps, ACopyInAnotherOrderRunsByItself) {
  const Tensor x = randn({64, 32, 48});
  const auto body = [&] { return x.permute({2, 1, 0}).contiguous() * 2 + 1; };
  EXPECT_EQ(expect_eagers_bits(body).launches, 2u);
  EXPECT_EQ(expect_eagers_bits(body, {.fuse = Fuse::everything}).launches, 1u);
}

TEST(NumberSteps, AFilledTensorIsNotRead) {
  manual_seed(1);
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kInt32, kBool}) {
    SCOPED_TRACE(concat(dtype));
    const Tensor x = (randn({512, 300}) * 3).to(dtype);
    const auto body = [&] {
      const Tensor threshold = full({512, 300}, 1, {.dtype = dtype});
      return where(x > threshold, x, threshold);
    };
    const jit::Stats stats = expect_eagers_bits(body);
    EXPECT_EQ(stats.launches, 1u);
  }
}

TEST(NumberSteps, NumbersComeWithTheCall) {
  const Tensor x = ones({40, 30});
  const auto f = compile([&](double value) {
    const Tensor y = x * 2;
    y.fill_(value);
    return y + x;
  });
  for (double value : {1.0, -0.0, 5.5, std::numeric_limits<double>::infinity()})
    EXPECT_TRUE(same_bits(f(value), x + full({40, 30}, value)));
}

TEST(NumberSteps, PartsAndRows) {
  manual_seed(1);
  const Tensor x = randn({64, 200});
  const JitOptions all{.fuse = Fuse::everything};
  expect_eagers_bits(
      [&] {
        const Tensor y = x + 1;
        y.slice(1, 3, 50).fill_(2);
        y.select(0, 0).zero_();
        return y * 2;
      },
      all);
  expect_eagers_bits(
      [&] {
        const Tensor row = x.amax({-1}, true);
        return (x - row) * full({64, 200}, 3) + full({64, 1}, 2) * row;
      },
      all);
  expect_eagers_bits([&] { return full({64, 200}, 3).sum({-1}) + full({64}, 2); }, all);
  expect_eagers_bits([&] { return full({64, 200}, 3).sum({0}) + x; }, all);
  expect_eagers_bits([&] { return dropout(full({64, 200}, 3), 0.0) + x; }, all);
}

TEST(NumberSteps, TensorsWithoutContents) {
  const Tensor x = ones({5, 7});
  Tensor kept, filled, host;
  {
    const LazyScope lazy;
    kept = empty({3});
    filled = empty({5, 7});
    host = empty({2});
    const Tensor y = x + 1;
    host.data_ptr<float>()[1] = 4;  // runs nothing
    EXPECT_EQ(y.impl().storage->data(), nullptr);
    filled.select(0, 2).copy_(y.select(0, 0));
    filled.select(0, 2).add_(host.select(0, 1));
    EXPECT_EQ(zeros({4}).sum().item<float>(), 0);
  }
  EXPECT_NE(kept.data_ptr(), nullptr);
  EXPECT_EQ(filled.at<float>({2, 3}), 6);
}

TEST(NumberSteps, FactoriesCanBeReplayed) {
  const no_grad silent;
  const Tensor x = ones({40, 30});
  const auto body = [](const Tensor& in) {
    return where(rand(in.sizes()) > full(in.sizes(), 0.5), in, zeros(in.sizes())) + arange(30);
  };
  const auto fast = compile(body, {.replay = true});
  for (int i = 0; i < 6; ++i) {
    manual_seed(static_cast<uint64_t>(i));
    const Tensor expected = body(x);
    manual_seed(static_cast<uint64_t>(i));
    EXPECT_TRUE(same_bits(fast(x), expected)) << i;
  }
  EXPECT_EQ(fast.replayed(), 4u);
}

// ---- the peak of memory -------------------------------------------------------------------------

TEST(PeakOfMemory, OnlyTheGroupsAtThePeakAreGivenUp) {
  manual_seed(2);
  const Tensor x = randn({512, 64}), target = randn({512, 64});
  std::vector<Tensor> weights;
  for (int i = 0; i < 2; ++i)
    for (const Shape& sizes : {Shape{64, 256}, Shape{64, 256}, Shape{256, 64}})
      weights.push_back((randn(sizes) * 0.1).requires_grad_());
  const auto step = [&] {
    Tensor y = x;
    for (size_t i = 0; i < weights.size(); i += 3)
      y = y + matmul(silu(matmul(y, weights[i])) * matmul(y, weights[i + 1]), weights[i + 2]);
    const Tensor loss = (y - target).square().mean();
    loss.backward();
    const no_grad silent;
    for (const Tensor& weight : weights) {
      weight.sub_(weight.grad() * 1e-3);
      weight.set_grad({});
    }
    return loss.detach();
  };
  const auto f = compile(step);
  f();
  const std::string text = f.explain();
  int64_t planned = 0, op_by_op = 0;
  const size_t line = text.find("memory: at most ");
  ASSERT_NE(line, std::string::npos);
  std::sscanf(text.c_str() + line, "memory: at most %ld bytes at a time, op by op %ld", &planned,
              &op_by_op);
  EXPECT_LE(planned, op_by_op + (64 << 10)) << text;
  // 18 products, and one kernel for each update, and for what lies between products.
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 50) << text;
  EXPECT_NE(text.find("mul_backward_self mul_backward_other silu_backward"), std::string::npos)
      << text;
}

// ---- store or recompute
// --------------------------------------------------------------------------

TEST(Recompute, CheapValuesAreNotKeptForTheGradient) {
  manual_seed(3);
  const Tensor x = randn({1024, 64}), target = randn({1024, 64});
  const Tensor first = (randn({64, 256}) * 0.1).requires_grad_(),
               second = (randn({256, 64}) * 0.1).requires_grad_(), bias = randn({256});
  const auto step = [&] {
    const Tensor a = matmul(x, first) + bias;
    const Tensor inner = a * a * a * 0.044715 + a;
    const Tensor loss = (matmul((inner * 0.5 + 1) * inner, second) - target).square().mean();
    loss.backward();
    const Tensor grad = first.grad();
    first.set_grad({});
    second.set_grad({});
    return grad;
  };
  const auto f = compile(step);
  const Tensor eager = step();
  EXPECT_TRUE(same_bits(f(), eager));
  EXPECT_TRUE(same_bits(f(), eager));
  const std::string text = f.explain();
  EXPECT_NE(text.find("(again "), std::string::npos) << text;
  int64_t planned = 0, op_by_op = 0;
  const size_t line = text.find("memory: at most ");
  ASSERT_NE(line, std::string::npos);
  std::sscanf(text.c_str() + line, "memory: at most %ld bytes at a time, op by op %ld", &planned,
              &op_by_op);
  // The product, its activation, and the gradient; not the five arrays in between.
  EXPECT_LE(planned, 4 * 1024 * 256 * 4 + 2 * 1024 * 64 * 4 + (64 << 10)) << text;
}

TEST(Recompute, FilledTensorsAreMadeWhereTheyAreRead) {
  manual_seed(3);
  const Tensor x = randn({128, 256});
  const auto body = [&] {
    const Tensor y = x * 2;
    y.fill_(3);
    const Tensor turned = cumsum(x * y, 0);
    return turned * y.t().contiguous().t() + y.sum();
  };
  expect_eagers_bits(body);
  const auto constant = [&] {
    const Tensor y = full({128, 256}, 3);
    return cumsum(x * y, 0) * y;
  };
  const jit::Stats stats = expect_eagers_bits(constant);
  EXPECT_EQ(stats.launches, 3u);
  EXPECT_EQ(stats.bytes, 6u * x.nbytes());
}

TEST(Recompute, WhatIsOverwrittenIsKept) {
  manual_seed(3);
  const Tensor x = randn({512, 256});
  const JitOptions all{.fuse = Fuse::everything};
  expect_eagers_bits(
      [&] {
        const Tensor y = x.clone(), z = y * 2 + 1;
        const Tensor sums = cumsum(z, 0);
        y.add_(sums);
        return cumsum(y, 1) * z + y;
      },
      all);
  expect_eagers_bits(
      [&] {
        const Tensor y = x * 3, z = y + 1;
        const Tensor sums = cumsum(z, 0);
        z.mul_(sums);
        return cumsum(z, 1) * z + y;
      },
      all);
}

// ---- lists --------------------------------------------------------------------------------------

TEST(ListOfKernels, StepsOfAnOptimizerAreOneLaunch) {
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    SCOPED_TRACE(concat(dtype));
    const auto trained = [&](bool compiles) {
      manual_seed(4);
      std::vector<Tensor> weights, grads, means;
      for (int64_t i = 0; i < 40; ++i) {
        const Shape sizes = i % 3 ? Shape{i + 1} : Shape{i + 2, 17};
        weights.push_back(randn(sizes).to(dtype));
        grads.push_back(randn(sizes).to(dtype));
        means.push_back(zeros(sizes, {.dtype = dtype}));
      }
      double rate = 0.1;
      const auto step = [&] {
        for (size_t i = 0; i < weights.size(); ++i) {
          means[i].mul_(0.9).add_(grads[i]);
          weights[i].sub_(means[i] * rate * (i % 2 ? 1.0 : 0.5));
        }
      };
      const auto fast = compile(step, {.strict = true});
      for (int i = 0; i < 4; ++i, rate *= 0.7) {
        const uint64_t before = jit::stats().launches;
        if (compiles)
          fast();
        else
          step();
        if (compiles) {
          EXPECT_EQ(jit::stats().launches - before, 1u);
        }
      }
      return weights;
    };
    const std::vector<Tensor> eager = trained(false), compiled = trained(true);
    for (size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same_bits(eager[i], compiled[i])) << i;
  }
}

TEST(ListOfKernels, KernelsThatDependOnOneAnotherRunInOrder) {
  manual_seed(4);
  const Tensor x = randn({30}), y = randn({30}), z = randn({8, 30});
  const auto body = [&] {
    Tensor a = x.clone(), b = y.clone();
    const Tensor rows = z.clone();
    for (int i = 0; i < 5; ++i) {
      a.mul_(0.5).add_(b);
      const Tensor sums = cumsum(a, 0);
      b.mul_(0.5).add_(sums);
      rows.select(0, i).mul_(0.5).add_(a);
    }
    return cumsum(a + b + rows, 0);
  };
  expect_eagers_bits(body);
  expect_eagers_bits(body, {.fuse = Fuse::everything});
}

// ---- budgets ------------------------------------------------------------------------------------

/// What the allocator counts beyond what is there at the beginning.
template <class Body>
int64_t allocated_by(const Body& body) {
  allocator(Device()).reset_peaks();
  const auto before = static_cast<int64_t>(memory_stats().allocated);
  body();
  return static_cast<int64_t>(memory_stats().peak_allocated) - before;
}

TEST(MemoryBudget, ValuesOfTheForwardPassAreMadeAgain) {
  manual_seed(5);
  const Tensor x = randn({1024, 64}), target = randn({1024, 64});
  std::vector<Tensor> weights;
  for (int i = 0; i < 8; ++i) weights.push_back((randn({64, 64}) * 0.1).requires_grad_());
  const auto step = [&] {
    Tensor y = x;
    for (const Tensor& weight : weights)
      y = dropout(gelu(layer_norm(matmul(y, weight), {64})), 0.1) + y;
    const Tensor loss = (y - target).square().mean();
    loss.backward();
    const no_grad silent;
    for (const Tensor& weight : weights) {
      weight.sub_(weight.grad());
      weight.set_grad({});
    }
    return loss.detach();
  };
  std::vector<Tensor> start;
  for (const Tensor& weight : weights) start.push_back(weight.detach().clone());
  const auto trained = [&](const std::function<Tensor()>& run) {
    const no_grad silent;
    for (size_t i = 0; i < weights.size(); ++i) weights[i].copy_(start[i]);
    manual_seed(6);
    const enable_grad recorded;
    std::vector<Tensor> all;
    for (int i = 0; i < 3; ++i) all.push_back(run());
    for (const Tensor& weight : weights) all.push_back(weight.detach().clone());
    return all;
  };
  const std::vector<Tensor> expected = trained(step);
  const auto plain = compile(step);
  plain();
  plain();
  const int64_t usual = allocated_by(plain);
  int64_t last = usual;
  for (const double share : {0.8, 0.6, 0.4}) {
    const auto budget = static_cast<int64_t>(static_cast<double>(usual) * share);
    const auto lean = compile(step, {.strict = true, .memory_budget = budget});
    const std::vector<Tensor> results = trained(lean);
    for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(same_bits(results[i], expected[i]));
    const int64_t now = allocated_by(lean);
    EXPECT_LE(now, std::max(budget + (64 << 10), last)) << share;
    EXPECT_NE(lean.explain().find("again"), std::string::npos);
    last = now;
  }
  EXPECT_LE(last, usual * 3 / 4);  // what is left is needed where it is, or made from what is gone
}

TEST(MemoryBudget, ArgumentsAreReadAgain) {
  manual_seed(5);
  const Tensor w = (randn({64, 64}) * 0.1).requires_grad_();
  const auto body = [&](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 6; ++i) y = gelu(matmul(y, w)) + y;
    y.square().mean().backward();
    const Tensor grad = w.grad();
    w.set_grad({});
    return grad;
  };
  const auto lean = compile(body, {.memory_budget = 1});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = randn({512, 64}), expected = body(x);
    EXPECT_TRUE(same_bits(lean(x), expected));
  }
  EXPECT_NE(lean.explain(randn({512, 64})).find("(again matmul)"), std::string::npos);
}

TEST(MemoryBudget, ReplayGivesMemoryBack) {
  const no_grad silent;
  const Tensor x = ones({256, 256});
  const auto body = [&](const Tensor& in) {
    Tensor y = in;
    for (int i = 0; i < 12; ++i) y = cumsum(y * 0.5, i % 2);
    return y;
  };
  const auto fast = compile(body, {.replay = true});
  for (int i = 0; i < 4; ++i) fast(x);
  EXPECT_GT(fast.replayed(), 0u);
  EXPECT_LE(allocated_by([&] { fast(x); }), 3 * 256 * 256 * 4 + (64 << 10));
}

}  // namespace
}  // namespace tensora::test
