// Tapes that were planned before are followed: the program may go on in another way at any op.
#include <gtest/gtest.h>

#include <random>

#include "tensora/jit/compile.h"
#include "tensora/jit/stats.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

std::vector<float> values(const Tensor& tensor) { return to_vector<float>(tensor); }
uint64_t followed() { return jit::stats().followed; }

TEST(PreparedTapes, AreFollowedFromTheThirdCallOn) {
  const Tensor x = arange(6, {.dtype = kFloat32});
  double rate = 0.5;
  const auto f = compile([&] { return (x * rate + 1).relu().sum({0}) - 2; });
  for (int i = 0; i < 6; ++i) {
    rate = i - 2.5;  // numbers are not part of what is compared
    const uint64_t before = followed();
    EXPECT_EQ(values(f()), values((x * rate + 1).relu().sum({0}) - 2));
    EXPECT_EQ(followed() - before, i < 2 ? 0u : 1u) << i;
  }
}

TEST(PreparedTapes, ProgramsThatBranch) {
  const Tensor x = arange(12, {.dtype = kFloat32}).reshape({3, 4}), y = x * 2 + 1;
  int way = 0;
  const auto body = [&] {
    Tensor z = x * 2 + y;
    if (way & 1) z = z.relu() - x;
    z = z.sum({way & 2 ? 0 : 1});          // an attribute on which the plan depends
    if (way & 4) z = z * z.sum();          // longer
    if (way & 8) z = z.to(kFloat64);       // another dtype
    if (way & 16) z = z.reshape({-1, 1});  // another layout
    if (way & 32) z.add_(1);               // a write
    return z.exp() * 0.5;
  };
  const auto f = compile(body, {.fuse = Fuse::everything});
  std::mt19937 random(3);
  const uint64_t before = followed();
  for (int i = 0; i < 600; ++i) {
    way = static_cast<int>(i < 200 ? i % 2 : i < 400 ? random() % 8 : random() % 64);
    const Tensor expected = body(), result = f();
    ASSERT_EQ(result.dtype(), expected.dtype());
    ASSERT_EQ(result.sizes(), expected.sizes());
    ASSERT_TRUE(allclose(result, expected, 1e-5, 1e-6)) << way;
  }
  EXPECT_GT(followed() - before, 300u);
}

// What is kept decides which results are stored.
TEST(PreparedTapes, ResultsThatAreKeptOrNot) {
  const Tensor x = arange(6, {.dtype = kFloat32});
  std::vector<Tensor> kept;
  int call = 0;
  const auto f = compile([&] {
    const Tensor a = x + call, b = a * 2;
    if (call % 3 == 0) kept.push_back(a);
    if (call % 4 == 0) kept.push_back(b);
    return b - 1;
  });
  for (; call < 40; ++call) {
    EXPECT_EQ(values(f()), values((x + call) * 2 - 1));
    if (call % 3 == 0) {
      EXPECT_EQ(values(kept[kept.size() - (call % 4 == 0 ? 2 : 1)]), values(x + call));
    }
    if (call % 4 == 0) {
      EXPECT_EQ(values(kept.back()), values((x + call) * 2));
    }
  }
}

TEST(PreparedTapes, StoragesThatAreOneOrTwo) {
  const Tensor memory = arange(8, {.dtype = kFloat32});
  const auto f = compile([](const Tensor& a, const Tensor& b) {
    a.add_(1);
    return a * 2 + b;
  });
  for (int i = 0; i < 12; ++i) {
    // The operands share a storage, or lie in two that begin at one address, or in two.
    const Tensor one = memory.clone();
    const Tensor other = i % 3 == 0   ? one
                         : i % 3 == 1 ? from_blob(one.data_ptr(), {8}, {.dtype = kFloat32})
                                      : one.clone();
    const Tensor before = other.clone(), result = f(one, other);
    EXPECT_EQ(values(one), values(memory + 1));
    EXPECT_EQ(values(result), values((memory + 1) * 2 + (i % 3 == 2 ? before : memory + 1))) << i;
  }
}

TEST(PreparedTapes, DefaultDtypesAndNumbersAreLookedAt) {
  const Tensor integers = arange(4), floats = arange(4, {.dtype = kFloat32});
  const Tensor number = tensor(2.5, {.dtype = kFloat64}).reshape({});
  int call = 0;
  const auto body = [&] {
    const Tensor a = integers + 1, b = a.sqrt();
    return call % 2 ? b * floats * 2.5 : b * floats * number;
  };
  const auto f = compile(body);
  const struct Restore {
    DType saved = default_dtype();
    ~Restore() { set_default_dtype(saved); }
  } restore;
  for (; call < 40; ++call) {
    set_default_dtype(call / 5 % 2 ? kFloat64 : kFloat32);
    const Tensor expected = body(), result = f();
    ASSERT_EQ(result.dtype(), expected.dtype()) << call;
    ASSERT_TRUE(allclose(result, expected)) << call;
  }
}

TEST(PreparedTapes, ExceptionsInTheMiddle) {
  const Tensor x = ones({4}), state = zeros({4}), wrong = ones({5});
  int call = 0;
  const auto f = compile([&] {
    state.add_(x);
    const Tensor y = state * 2;
    if (call % 3 == 2) return y + wrong;  // throws
    return y + x;
  });
  for (; call < 12; ++call) {
    if (call % 3 == 2)
      EXPECT_THROW(f(), Error);
    else
      EXPECT_EQ(values(f()), values(full({4}, 2.0 * (call + 1) + 1)));
    EXPECT_EQ(values(state), values(full({4}, call + 1)));
  }
}

TEST(PreparedTapes, GradientsAndPieces) {
  manual_seed(1);
  const Tensor w = randn({4, 3}).requires_grad_(), x = randn({5, 4});
  std::vector<float> losses[2];
  const auto step = [&] {
    Tensor loss = matmul(x, w).tanh().square().mean();
    if (loss.item<float>() > 0.2) loss = loss * 2;  // ends a piece
    loss.backward();
    const no_grad silent;
    w.sub_(w.grad() * 0.3);
    w.set_grad({});
    return loss.detach();
  };
  const auto f = compile(step);
  const Tensor start = w.detach().clone();
  for (int way = 0; way < 2; ++way) {
    {
      const no_grad silent;
      w.copy_(start);
    }
    for (int i = 0; i < 30; ++i) losses[way].push_back((way ? f() : step()).item<float>());
  }
  for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5);
}

TEST(PreparedTapes, OpsThatLookAtData) {
  const Tensor x = arange(6, {.dtype = kFloat32});
  int limit = 0;
  const auto body = [&] {
    const Tensor y = x * 2 + 1;
    return masked_select(y, y > limit).sum() + nonzero(y > limit).sum();
  };
  const auto f = compile(body);
  for (limit = 0; limit < 12; ++limit)
    EXPECT_EQ(values(f().to(kFloat32)), values(body().to(kFloat32)));
}

TEST(PreparedTapes, InferenceModeAndScopes) {
  const Tensor x = ones({4});
  for (int i = 0; i < 8; ++i) {
    Tensor y;
    bool inference = i % 2 == 0;
    {
      const inference_mode mode(inference);
      const LazyScope lazy;
      y = (x * 2 + 1).relu() + i;
    }
    EXPECT_EQ(y.is_inference(), inference);
    EXPECT_EQ(values(y), values(full({4}, 3.0 + i)));
  }
}

}  // namespace
}  // namespace tensora::test
