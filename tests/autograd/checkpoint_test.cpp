#include <cmath>

#include "tensora/autograd/checkpoint.h"
#include "tensora/autograd/checkpoint_run.h"
#include "tensora/autograd/function.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

Tensor block(const Tensor& x) { return exp(x * 0.5) * x; }

TEST(Checkpoint, SameGradientsAsWithout) {
  const Tensor a = leaf({1, 2}), b = leaf({1, 2});
  block(block(a)).sum().backward();
  const Tensor y = checkpoint([](const Tensor& x) { return block(block(x)); }, b);
  EXPECT_EQ(y.grad_fn()->name(), "checkpoint");
  y.sum().backward();
  EXPECT_EQ(values(b.grad()), values(a.grad()));
}

TEST(Checkpoint, RunsTwiceAndOnlyWhenNeeded) {
  int runs = 0;
  const auto body = [&](const Tensor& x) {
    ++runs;
    return block(x);
  };
  const Tensor x = leaf({1});
  const Tensor y = checkpoint(body, x);
  EXPECT_EQ(runs, 1);
  y.backward();
  EXPECT_EQ(runs, 2);
  {
    const no_grad silent;
    EXPECT_FALSE(checkpoint(body, x).requires_grad());
  }
  EXPECT_EQ(runs, 3);
}

TEST(Checkpoint, GradientsOfCapturedTensors) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  const Tensor h = w * 2;  // a captured tensor that is no leaf
  const Tensor y = checkpoint([&](const Tensor& in) { return exp(in * 0.1) * w * h; }, x);
  const std::vector<Tensor> got = grad(y.sum(), {x, w, h}, {.retain_graph = true});
  const Tensor plain = exp(x * 0.1) * w * h;
  const std::vector<Tensor> expected = grad(plain.sum(), {x, w, h});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(values(got[i]), values(expected[i])) << i;
}

TEST(Checkpoint, InputsWithoutGradients) {
  const Tensor x = constant({1, 2}), w = leaf({3, 4});
  checkpoint([&](const Tensor& in) { return exp(in) * w * w; }, x).sum().backward();
  EXPECT_NEAR(values(w.grad())[0], std::exp(1.0) * 6, 1e-12);
  EXPECT_FALSE(checkpoint(block, x).requires_grad());
}

TEST(Checkpoint, InputsThatDependOnOneAnother) {
  const Tensor x = leaf({1.5});
  const Tensor y = x * x;
  const auto body = [](const TensorList& in) { return TensorList{in[0] * in[1], in[1] * 2}; };
  const TensorList out = checkpoint(body, {x, y});
  (out[0] + out[1]).backward();  // x³ + 2x²
  EXPECT_DOUBLE_EQ(values(x.grad())[0], 3 * 2.25 + 4 * 1.5);
}

TEST(Checkpoint, SomeOutputsUnused) {
  const Tensor x = leaf({2});
  const TensorList out = checkpoint(
      [](const TensorList& in) {
        return TensorList{in[0] * 2, exp(in[0]), in[0] > 1};
      },
      {x});
  EXPECT_FALSE(out[2].requires_grad());
  out[0].backward();
  EXPECT_EQ(values(x.grad()), (Values{2}));
}

TEST(Checkpoint, Nested) {
  const Tensor a = leaf({0.5, 0.7}), b = leaf({0.5, 0.7});
  const Tensor w = leaf({2, 3}), v = leaf({2, 3});
  (block(block(a) * w) * w).sum().backward();
  const auto inner = [&](const Tensor& x) { return block(x) * v; };
  const auto outer = [&](const Tensor& x) { return block(checkpoint(inner, x)) * v; };
  checkpoint(outer, b).sum().backward();
  EXPECT_EQ(values(b.grad()), values(a.grad()));
  EXPECT_EQ(values(v.grad()), values(w.grad()));
}

TEST(Checkpoint, HigherOrders) {
  const Tensor x = leaf({0.5}), w = leaf({2});
  const auto body = [&](const Tensor& in) { return exp(in * w) * in; };
  const auto second = [&](const Tensor& y) {
    const std::vector<Tensor> first = grad(y, {x, w}, {.create_graph = true});
    Values result = values(first[0]);
    for (const Tensor& g : grad(first[0] + first[1], {x, w})) result.push_back(values(g)[0]);
    return result;
  };
  const Values expected = second(body(x)), got = second(checkpoint(body, x));
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
}

TEST(Checkpoint, DrawsTheSameRandomNumbersAgain) {
  manual_seed(3);
  const Tensor x = ones({64}, {.dtype = kFloat64, .requires_grad = true});
  Values first;
  const auto body = [&](const Tensor& in) {
    const Tensor noise = rand({64}, {.dtype = kFloat64});
    if (first.empty()) first = values(noise);
    return in * in * noise;
  };
  const Tensor y = checkpoint(body, x);
  const Values between = values(rand({4}));
  y.sum().backward();
  Values expected;
  for (double value : first) expected.push_back(2 * value);
  EXPECT_EQ(values(x.grad()), expected);
  // Neither does the second run disturb the stream.
  const Values after = values(rand({4}));
  manual_seed(3);
  rand({64}, {.dtype = kFloat64});
  EXPECT_EQ(values(rand({4})), between);
  EXPECT_EQ(values(rand({4})), after);
}

TEST(Checkpoint, SavesMemory) {
  const Tensor x = zeros({1 << 16}, {.dtype = kFloat64, .requires_grad = true});
  const auto body = [](const Tensor& in) {
    Tensor y = in;
    for (int i = 0; i < 8; ++i) y = exp(y) * 0.1;
    return y;
  };
  const uint64_t before = memory_stats().allocated;
  const Tensor y = checkpoint(body, x);
  EXPECT_LE(memory_stats().allocated, before + 2 * x.nbytes());
  y.sum().backward();
  EXPECT_LE(memory_stats().allocated, before + 3 * x.nbytes());
}

TEST(Checkpoint, TwiceNeedsRetainGraph) {
  const Tensor x = leaf({1});
  const Tensor y = checkpoint(block, x);
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  EXPECT_TRUE(contains(error_of([&] { y.backward(); }), "retain_graph"));
}

TEST(Checkpoint, ChangedInputsAreNoticed) {
  const Tensor x = leaf({1}) * 2;
  const Tensor y = checkpoint(block, x);
  x.add_(1);
  EXPECT_TRUE(contains(error_of([&] { y.backward(); }), "changed in place"));
}

TEST(Checkpoint, ABodyThatChangesItsMindIsNoticed) {
  const Tensor x = leaf({1}), w = leaf({2}), v = leaf({3});
  bool first = true;
  const auto body = [&](const Tensor& in) { return std::exchange(first, false) ? in * w : in * v; };
  const Tensor y = checkpoint(body, x);
  EXPECT_TRUE(contains(error_of([&] { y.backward(); }), "other tensors in its second run"));
}

TEST(Checkpoint, AnExceptionInTheBodyLeavesNothingBehind) {
  const Tensor x = leaf({1});
  EXPECT_FALSE(error_of([&] {
                 checkpoint([](const Tensor& in) { return in + constant({1, 2}) + zeros({3}); }, x);
               }).empty());
  EXPECT_EQ(thread_state.graph_region, 0u);
}

TEST(Checkpoint, HooksInsideTheBodyRunInBackward) {
  const Tensor x = leaf({1});
  int calls = 0;
  const auto body = [&](const Tensor& in) {
    const Tensor y = in * 2;
    y.register_hook([&](const Tensor& grad) {
      ++calls;
      return grad * 10;
    });
    return y * 1;
  };
  checkpoint(body, x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (Values{20}));
}

TEST(Checkpoint, HooksOnWhatTheBodyCapturesSeeTheWholeGradientOnce) {
  const Tensor x = leaf({1}), w = leaf({2});
  std::vector<Values> seen;
  w.register_hook([&](const Tensor& grad) {
    seen.push_back(values(grad));
    return grad * 10;
  });
  int after = 0;
  w.register_post_accumulate_grad_hook([&](const Tensor&) { ++after; });
  const auto inner = [&](const Tensor& in) { return in * w; };
  const auto outer = [&](const Tensor& in) { return checkpoint(inner, in) * w; };
  (checkpoint(outer, x) * w).backward();  // x w³
  EXPECT_EQ(seen, (std::vector<Values>{{12}}));
  EXPECT_EQ(values(w.grad()), (Values{120}));
  EXPECT_EQ(after, 1);
}

TEST(Checkpoint, HooksOfTheBodyOnItsInputRunOnce) {
  const Tensor x = leaf({1});
  int calls = 0;
  const auto body = [&](const Tensor& in) {
    in.register_hook([&](const Tensor& grad) {
      ++calls;
      return grad * 10;
    });
    return in * 2 + in * 3;
  };
  checkpoint(body, x).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(x.grad()), (Values{50}));
}

TEST(Checkpoint, KnowsItsSecondRun) {
  const Tensor x = ones({2}).requires_grad_();
  std::vector<bool> outer, inner;
  const Tensor y = checkpoint(
      [&](const Tensor& a) {
        outer.push_back(is_checkpoint_rerun());
        return checkpoint(
                   [&](const Tensor& b) {
                     inner.push_back(is_checkpoint_rerun());
                     return b * b;
                   },
                   a) *
               2;
      },
      x);
  EXPECT_FALSE(is_checkpoint_rerun());
  y.sum().backward();
  EXPECT_FALSE(is_checkpoint_rerun());
  EXPECT_EQ(outer, (std::vector<bool>{false, true}));
  // The outer one's second run has a first run of the inner one.
  EXPECT_EQ(inner, (std::vector<bool>{false, false, true}));
}

}  // namespace
}  // namespace tensora::testing
