#include "tensora/autograd/engine.h"

#include <cmath>
#include <thread>

#include "tests/helpers.h"

namespace tensora::testing {
namespace {

TEST(Backward, GradNeedsInputs) {
  const Tensor x = ones({2}, {.requires_grad = true}), y = x * 2;
  EXPECT_TRUE(contains(error_of([&] { grad({y}, {}, {ones({2})}); }), "grad: `inputs`"));
}

TEST(Backward, DiamondAddsBothPaths) {
  const Tensor x = leaf({2, 3});
  const Tensor y = x * x;
  (y * 2 + y * x).sum().backward();  // 2x² + x³
  EXPECT_EQ(values(x.grad()), (Values{4 * 2 + 3 * 4, 4 * 3 + 3 * 9}));
}

TEST(Backward, TensorUsedManyTimes) {
  const Tensor x = leaf({3});
  (x + x + x * x - x).backward();
  EXPECT_EQ(values(x.grad()), (Values{1 + 6}));
}

TEST(Backward, AccumulatesOverCallsIntoTheSameMemory) {
  const Tensor x = leaf({1, 2});
  (x * 3).sum().backward();
  const void* address = x.grad().data_ptr();
  (x * 4).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{7, 7}));
  EXPECT_EQ(x.grad().data_ptr(), address);
}

TEST(Backward, LeavesDoNotShareGradientMemory) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor seed = constant({1, 1});
  (a + b).backward(seed);
  EXPECT_NE(a.grad().data_ptr(), b.grad().data_ptr());
  EXPECT_NE(a.grad().data_ptr(), seed.data_ptr());
  fill_(a.grad(), 9);
  EXPECT_EQ(values(b.grad()), (Values{1, 1}));
}

TEST(Backward, SumsOverBroadcastDims) {
  const Tensor row = leaf({1, 2, 3});
  const Tensor column = leaf({10, 20}).reshape({2, 1});
  column.retain_grad();
  const Tensor scalar = leaf({5}).reshape({});
  scalar.retain_grad();
  (row * column + scalar).sum().backward();
  EXPECT_EQ(values(row.grad()), (Values{30, 30, 30}));
  EXPECT_EQ(values(column.grad()), (Values{6, 6}));
  EXPECT_EQ(column.grad().sizes(), (Shape{2, 1}));
  EXPECT_EQ(values(scalar.grad()), (Values{6}));
  EXPECT_EQ(scalar.grad().sizes(), Shape{});
}

TEST(Backward, SizeOneAgainstEmpty) {
  const Tensor x = leaf({1});
  (x * zeros({0}, {.dtype = kFloat64})).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{0}));
}

TEST(Backward, GradientTakesTheDtypeOfTheLeaf) {
  const Tensor x = zeros({2}, {.dtype = kFloat16, .requires_grad = true});
  (x.to(kFloat64) * 3).sum().backward();
  EXPECT_EQ(x.grad().dtype(), kFloat16);
  const Tensor y = zeros({2}, {.dtype = kFloat32, .requires_grad = true});
  (y * constant({1, 2})).sum().backward();
  EXPECT_EQ(y.grad().dtype(), kFloat32);
}

TEST(Backward, SeedOfAnotherDtypeIsCast) {
  const Tensor x = leaf({1, 2});
  (x * 2).backward(tensor({1, 3}));
  EXPECT_EQ(values(x.grad()), (Values{2, 6}));
}

TEST(Backward, WrongSeeds) {
  const Tensor x = leaf({1, 2});
  EXPECT_TRUE(contains(error_of([&] { (x * 2).backward(); }), "single-element"));
  EXPECT_TRUE(contains(error_of([&] { (x * 2).backward(constant({1})); }), "shape"));
  EXPECT_TRUE(contains(error_of([&] { constant({1}).backward(); }), "does not require grad"));
  EXPECT_TRUE(contains(
      error_of([&] { (x * 2).backward(zeros({2}, {.dtype = kFloat64, .device = "meta"})); }),
      "cannot be on meta"));
}

TEST(Backward, TwiceNeedsRetainGraph) {
  const Tensor x = leaf({2});
  const Tensor y = exp(x);
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  const double once = std::exp(2.0);
  EXPECT_DOUBLE_EQ(values(x.grad())[0], 2 * once);
  const std::string text = error_of([&] { y.backward(); });
  EXPECT_TRUE(contains(text, "'exp'")) << text;
  EXPECT_TRUE(contains(text, "retain_graph")) << text;
}

TEST(Backward, OpsThatSaveNothingCanRunTwice) {
  const Tensor x = leaf({2});
  const Tensor y = x + 1;
  y.backward();
  y.backward();
  EXPECT_EQ(values(x.grad()), (Values{2}));
}

TEST(Backward, SeveralOutputs) {
  const Tensor x = leaf({1, 2});
  const std::vector<Tensor> outputs{(x * 2).sum(), x * x};
  const std::vector<Tensor> seeds{Tensor(), constant({1, 10})};
  backward(outputs, seeds);
  EXPECT_EQ(values(x.grad()), (Values{2 + 2, 2 + 40}));
}

TEST(Backward, FreesSavedTensorsAsItGoes) {
  const Tensor x = zeros({1 << 16}, {.dtype = kFloat64, .requires_grad = true});
  const uint64_t before = memory_stats().allocated;
  Tensor y = x;
  for (int i = 0; i < 8; ++i) y = exp(y);
  const Tensor loss = y.sum();
  y = Tensor();
  EXPECT_GE(memory_stats().allocated, before + 8 * x.nbytes());  // each exp keeps its result
  loss.backward();
  EXPECT_LT(memory_stats().allocated, before + 3 * x.nbytes());
}

TEST(Backward, KeepsOnlyWhatTheGradientsNeed) {
  const Tensor x = zeros({1 << 16}, {.dtype = kFloat64, .requires_grad = true});
  const uint64_t before = memory_stats().allocated;
  const Tensor loss = ((x + 1) * 2 - 3).sum();  // none of these needs its operands
  EXPECT_LT(memory_stats().allocated, before + x.nbytes());
  loss.backward();
}

TEST(Grad, LeavesAccumulatedGradientsAlone) {
  const Tensor x = leaf({2, 3});
  const std::vector<Tensor> grads = grad((x * x).sum(), {x});
  EXPECT_EQ(values(grads[0]), (Values{4, 6}));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Grad, OfIntermediates) {
  const Tensor x = leaf({2});
  const Tensor y = x * 3, z = y * y;
  const std::vector<Tensor> grads = grad(z, {y, x, z});
  EXPECT_EQ(values(grads[0]), (Values{12}));
  EXPECT_EQ(values(grads[1]), (Values{36}));
  EXPECT_EQ(values(grads[2]), (Values{1}));
}

TEST(Grad, DoesNotTouchTheGraphBeyondItsInputs) {
  const Tensor x = leaf({2});
  const Tensor y = exp(x);
  grad(y * 3, {y});
  y.backward();  // exp was not run, so it still has what it saved
  EXPECT_DOUBLE_EQ(values(x.grad())[0], std::exp(2.0));
}

TEST(Grad, UnusedInputs) {
  const Tensor x = leaf({2}), unused = leaf({1});
  EXPECT_TRUE(contains(error_of([&] { grad(x * 2, {x, unused}); }), "input 1 was not used"));
  const std::vector<Tensor> grads = grad(x * 2, {x, unused}, {.allow_unused = true});
  EXPECT_EQ(values(grads[0]), (Values{2}));
  EXPECT_FALSE(grads[1].defined());
  EXPECT_TRUE(contains(error_of([&] { grad(x * 2, {constant({1})}); }), "does not require grad"));
}

TEST(Grad, ThirdOrder) {
  const Tensor x = leaf({1.5});
  const Tensor y = x * x * x * x;
  const Tensor first = grad(y, {x}, {.create_graph = true})[0];
  const Tensor second = grad(first, {x}, {.create_graph = true})[0];
  const Tensor third = grad(second, {x})[0];
  EXPECT_DOUBLE_EQ(values(first)[0], 4 * 1.5 * 1.5 * 1.5);
  EXPECT_DOUBLE_EQ(values(second)[0], 12 * 1.5 * 1.5);
  EXPECT_DOUBLE_EQ(values(third)[0], 24 * 1.5);
}

TEST(Grad, CreateGraphThroughSavedOutputs) {
  const Tensor x = leaf({0.3});
  Tensor value = exp(x * 2);  // every derivative doubles
  for (int order = 1; order <= 4; ++order) value = grad(value, {x}, {.create_graph = true})[0];
  EXPECT_NEAR(values(value)[0], 16 * std::exp(0.6), 1e-12);
}

TEST(Grad, BackwardWithCreateGraphMakesDifferentiableGradients) {
  const Tensor x = leaf({3});
  (x * x).backward({}, /*retain_graph=*/false, /*create_graph=*/true);
  const Tensor gradient = x.grad();
  ASSERT_TRUE(gradient.requires_grad());
  x.set_grad({});
  (gradient * gradient).backward();  // (2x)²
  EXPECT_EQ(values(x.grad()), (Values{24}));
}

TEST(LongGraphs, ChainOf100000Ops) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = y + 1;
  y.backward();
  EXPECT_EQ(values(x.grad()), (Values{1}));
}

TEST(LongGraphs, ChainIsFreedWithoutBackward) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = y * x;  // saves tensors, which hold the graph too
  y = Tensor();
  EXPECT_FALSE(x.grad().defined());
}

TEST(LongGraphs, GradOverAChain) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = y * 1;
  EXPECT_EQ(values(grad(y, {x})[0]), (Values{1}));
}

TEST(LongGraphs, FiveThousandBranches) {
  const Tensor x = leaf({1, 2});
  TensorList branches;
  for (int i = 0; i < 5'000; ++i) branches.push_back(x * i);
  Tensor sum = branches[0];
  for (size_t i = 1; i < branches.size(); ++i) sum = sum + branches[i];
  sum.sum().backward();
  const double expected = 5'000.0 * 4'999 / 2;
  EXPECT_EQ(values(x.grad()), (Values{expected, expected}));
}

TEST(LongGraphs, ManyNarrowDiamonds) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = (y + y) * 0.5;  // 2^60 paths
  y.backward();
  EXPECT_EQ(values(x.grad()), (Values{1}));
}

void run_in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, SeparateGraphs) {
  std::vector<Values> results(4);
  run_in_threads(4, [&](int i) {
    for (int round = 0; round < 50; ++round) {
      const Tensor x = leaf({1.0 + i, 2});
      (exp(x * 0.5) * x).sum().backward();
      results[static_cast<size_t>(i)] = values(x.grad());
    }
  });
  for (int i = 0; i < 4; ++i) {
    const double v = 1.0 + i;
    EXPECT_NEAR(results[static_cast<size_t>(i)][0], std::exp(v / 2) * (1 + v / 2), 1e-12);
  }
}

TEST(Threads, SharedLeaves) {
  const Tensor w = leaf({1, 2, 3});
  run_in_threads(4, [&](int i) {
    for (int round = 0; round < 50; ++round) (w * w * (i + 1)).sum().backward();
  });
  EXPECT_EQ(values(w.grad()), (Values{2.0 * 50 * 10, 4.0 * 50 * 10, 6.0 * 50 * 10}));
}

TEST(Threads, SharedGraphWithRetainGraph) {
  const Tensor x = leaf({2, 3});
  const Tensor y = exp(x) * x;
  run_in_threads(4, [&](int) {
    for (int round = 0; round < 20; ++round) grad((y * y).sum(), {x}, {.retain_graph = true});
  });
  const Values once = values(grad((y * y).sum(), {x})[0]);
  EXPECT_NEAR(once[0], 2 * std::exp(4.0) * 2 * 3, 1e-9);
}

TEST(Threads, GradModeBelongsToOneThread) {
  const no_grad silent;
  run_in_threads(2, [](int) { EXPECT_TRUE((leaf({1}) * 2).requires_grad()); });
  EXPECT_FALSE((leaf({1}) * 2).requires_grad());
}

TEST(Anomaly, NamesTheOpAndTheCall) {
  const Tensor x = leaf({-1, 4});
  const detect_anomaly watch;
  const Tensor y = sqrt(x);
  const std::string text = error_of([&] { y.sum().backward(); });
  EXPECT_TRUE(contains(text, "'sqrt'")) << text;
  EXPECT_TRUE(contains(text, "called from")) << text;
}

TEST(Anomaly, SilentWithoutNan) {
  const detect_anomaly watch;
  const Tensor x = leaf({1, 4});
  sqrt(x).sum().backward();
  EXPECT_EQ(values(x.grad()), (Values{0.5, 0.25}));
}

}  // namespace
}  // namespace tensora::testing
