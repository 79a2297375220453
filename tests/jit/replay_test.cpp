// compile() with replay: the body does not run again, and the results are those of the body.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tensora/jit/compile.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

std::vector<float> values(const Tensor& tensor) { return to_vector<float>(tensor); }

std::string message_of(const auto& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Replay, TheBodyStopsRunningAfterTwoEqualRuns) {
  const no_grad silent;
  int bodies = 0;
  const auto f = compile(
      [&](const Tensor& x, double scale) {
        ++bodies;
        return (x * scale + 1).relu();
      },
      {.replay = true});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({5}, i - 2.0);
    EXPECT_EQ(values(f(x, 2.0)), values((x * 2.0 + 1).relu())) << i;
  }
  EXPECT_EQ(bodies, 2);
  EXPECT_EQ(f.replayed(), 4u);
  EXPECT_EQ(values(f(ones({5}), 3.0)),
            values(full({5}, 4.0)));  // another number, another signature
  EXPECT_EQ(values(f(ones({7}), 2.0)), values(full({7}, 3.0)));
  EXPECT_EQ(values(f(ones({2, 5}).transpose(0, 1), 2.0)), values(full({5, 2}, 3.0)));
  EXPECT_EQ(bodies, 5);
}

TEST(Replay, CapturedTensorsAreReadAndWrittenAsTheyAre) {
  const no_grad silent;
  const Tensor weight = ones({4}), count = zeros({1});
  int bodies = 0;
  const auto f = compile(
      [&](const Tensor& x) {
        ++bodies;
        count.add_(1);
        return x * weight + count;
      },
      {.replay = true});
  const Tensor x = full({4}, 3.0);
  for (int i = 1; i <= 6; ++i) {
    weight.fill_(i);
    const uint32_t version = count.version();
    EXPECT_EQ(values(f(x)), values(full({4}, 4.0 * i)));
    EXPECT_EQ(count.version(), version + 1);
  }
  EXPECT_EQ(bodies, 2);
  EXPECT_EQ(count.item<float>(), 6);
}

TEST(Replay, ResultsThatAreKeptStayAsTheyWere) {
  const no_grad silent;
  const auto f = compile([](const Tensor& x) { return std::pair((x * 2).relu(), x.select(0, 1)); },
                         {.replay = true});
  std::vector<std::pair<Tensor, Tensor>> kept;
  std::vector<Tensor> given;
  for (int i = 0; i < 6; ++i) {
    given.push_back(full({8}, i));
    kept.push_back(f(given.back()));
  }
  EXPECT_EQ(f.replayed(), 4u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(values(kept[i].first), values(full({8}, 2.0 * static_cast<double>(i))));
    EXPECT_TRUE(kept[i].second.shares_storage(given[i]));
    EXPECT_EQ(kept[i].second.item<float>(), static_cast<float>(i));
  }
}

TEST(Replay, WhatIsCapturedAndGivenIsToldApart) {
  const no_grad silent;
  const Tensor captured = full({4}, 10.0);
  const auto f = compile([&](const Tensor& x) { return (x + captured) * 2; }, {.replay = true});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(values(f(captured)), values(full({4}, 40.0)));
  // Until now the argument and the captured tensor were the same.
  for (int i = 0; i < 4; ++i) EXPECT_EQ(values(f(ones({4}))), values(full({4}, 22.0))) << i;
  EXPECT_EQ(values(f(captured)), values(full({4}, 40.0)));
  EXPECT_GT(f.replayed(), 2u);
}

TEST(Replay, AliasedArgumentsHaveTheirOwnRecording) {
  const no_grad silent;
  const auto f = compile(
      [](const Tensor& a, const Tensor& b) {
        a.mul_(2);
        return b + a;
      },
      {.replay = true});
  for (int i = 0; i < 4; ++i) {
    const Tensor a = ones({4}), b = ones({4});
    EXPECT_EQ(values(f(a, b)), values(full({4}, 3.0)));
    EXPECT_EQ(values(a), values(full({4}, 2.0)));
    EXPECT_EQ(values(f(b, b)), values(full({4}, 4.0)));
    const Tensor base = ones({5});
    EXPECT_EQ(values(f(base.slice(0, 0, 4), base.slice(0, 1, 5))),
              (std::vector<float>{4, 4, 4, 3}));
  }
  EXPECT_GT(f.replayed(), 0u);
}

TEST(Replay, RandomNumbersAreThoseOfTheBody) {
  const no_grad silent;
  const auto body = [](const Tensor& x) {
    return dropout(x, 0.5, true) + dropout(x, 0.2, true) * 2;
  };
  const auto f = compile(body, {.replay = true});
  const Tensor x = ones({64});
  manual_seed(7);
  std::vector<std::vector<float>> eager, replayed;
  for (int i = 0; i < 5; ++i) eager.push_back(values(body(x) + rand({1})));
  manual_seed(7);
  for (int i = 0; i < 5; ++i) replayed.push_back(values(f(x) + rand({1})));
  EXPECT_EQ(eager, replayed);
  EXPECT_EQ(f.replayed(), 3u);
}

TEST(Replay, WhatCannotBeReplayedRunsItsBody) {
  int step = 0;
  const Tensor x = ones({4}), w = ones({4}).requires_grad_();
  const auto never = [&](const char* reason, const auto& body) {
    const auto f = compile(body, {.replay = true});
    for (int i = 0; i < 4; ++i) {
      step = i;
      EXPECT_EQ(values(f(x)), values(body(x))) << reason;
    }
    EXPECT_EQ(f.replayed(), 0u) << reason;
    EXPECT_NE(f.explain(x).find(reason), std::string::npos) << f.explain(x);
  };
  {
    const no_grad silent;
    never("another one in each call", [&](const Tensor& t) { return t * (1.0 + step); });
    never("the host reads", [](const Tensor& t) { return t.sum().item<float>() > 0 ? t + 1 : t; });
    never("the host reads", [](const Tensor& t) { return t.at<float>({0}) > 0 ? t + 1 : t; });
    never("the host reads", [&](const Tensor& t) {
      return t + tensor(std::vector<float>(4, static_cast<float>(step)));
    });
  }
  never("gradient", [&](const Tensor& t) { return t * w; });
}

TEST(Replay, VerifyFindsWhatIsOutOfDate) {
  const no_grad silent;
  Tensor weight = ones({4});
  const auto f = compile([&](const Tensor& x) { return x * weight; },
                         {.name = "scaled", .replay = true, .verify = 3});
  const Tensor x = full({4}, 2.0);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(values(f(x)), values(x));
  weight =
      full({4}, 5.0);  // the function would use the new tensor; the recording holds the old one
  std::string message;
  for (int i = 0; i < 4 && message.empty(); ++i) message = message_of([&] { f(x); });
  EXPECT_NE(message.find("scaled with replay is out of date"), std::string::npos) << message;
}

TEST(Replay, ModesAndThreads) {
  const auto f = compile([](const Tensor& x) { return (x * 2 + 1).relu(); }, {.replay = true});
  const Tensor leaf = ones({4}).requires_grad_();
  f(leaf).sum().backward();
  EXPECT_EQ(values(leaf.grad()), values(full({4}, 2.0)));
  std::vector<std::thread> threads;
  std::vector<Tensor> results(4);
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      const no_grad silent;
      for (int i = 0; i < 50; ++i) results[t] = f(full({64}, static_cast<double>(t)));
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < results.size(); ++t)
    EXPECT_EQ(values(results[t]), values(full({64}, 2.0 * static_cast<double>(t) + 1)));
  EXPECT_GT(f.replayed(), 100u);
  const no_grad silent;
  const auto outer = compile([&](const Tensor& x) { return f(x) + 1; });
  EXPECT_EQ(values(outer(ones({64}))), values(full({64}, 4.0)));  // traced through
}

TEST(Replay, TheDefaultDtypeIsPartOfTheSignature) {
  const no_grad silent;
  const auto f = compile([](const Tensor& x) { return sqrt(x); }, {.replay = true});
  const Tensor x = tensor({1, 2});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(x).dtype(), kFloat32);
  EXPECT_EQ(f.replayed(), 1u);
  const struct Restore {
    DType saved = default_dtype();
    ~Restore() { set_default_dtype(saved); }
  } restore;
  set_default_dtype(kFloat64);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(x).dtype(), kFloat64);
}

TEST(Replay, TypesOfNumbersArePartOfTheSignature) {
  const no_grad silent;
  const auto body = [](const Tensor& x, auto number) { return x + number; };
  const auto f = compile(body, {.replay = true});
  const Tensor x = tensor({1, 2}), bits = tensor({true, false});
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(f(x, 0).dtype(), kInt64);
    EXPECT_EQ(f(x, 0.0).dtype(), kFloat32);
    EXPECT_EQ(f(bits, false).dtype(), kBool);
    EXPECT_EQ(f(bits, 0).dtype(), kInt64);
    // An integer with the bits of 2.0.
    EXPECT_EQ(f(x, 0x4000'0000'0000'0000).dtype(), kInt64);
    EXPECT_EQ(values(f(x, 2.0)), (std::vector<float>{3, 4}));
  }
  EXPECT_EQ(f.replayed(), 12u);
}

// Autocast keeps its casts of parameters from call to call; recordings must not.
TEST(Replay, ParametersAreCastAnewUnderAutocast) {
  const no_grad silent;
  const Tensor weight = ones({4, 4}).requires_grad_(), x = ones({2, 4});
  const auto body = [&](const Tensor& in) { return matmul(in, weight).to(kFloat32); };
  const auto inner = [&](const Tensor& in) {
    const autocast half;
    return body(in);
  };
  const auto f = compile(body, {.replay = true});
  const auto g = compile(inner, {.replay = true});
  const autocast half;
  for (int i = 0; i < 8; ++i) {
    if (i >= 4) weight.add_(1);
    EXPECT_EQ(values(f(x)), values(body(x))) << i;
    EXPECT_EQ(values(g(x)), values(body(x))) << i;
    EXPECT_EQ(values(f(x))[0], i < 4 ? 4 : 4.0f * static_cast<float>(i - 2));
  }
  EXPECT_GT(f.replayed(), 2u);
  EXPECT_GT(g.replayed(), 2u);
}

TEST(Replay, SmallerStoragesRunTheBody) {
  const no_grad silent;
  const auto f =
      compile([](const Tensor& x) { return as_strided(x, {8}, {1}) * 2; }, {.replay = true});
  for (int i = 0; i < 4; ++i) f(arange(8, {.dtype = kFloat32}).slice(0, 0, 2));
  EXPECT_EQ(f.replayed(), 2u);
  EXPECT_NE(message_of([&] { f(ones({4}).slice(0, 0, 2)); }), "");
}

// Threads replay one recording at once, while others record new signatures. Each result is checked
// while the other threads run.
TEST(Replay, ThreadsReplayAtOnce) {
  const Tensor weight = rand({24, 24});
  const auto body = [&](const Tensor& x, int64_t times) {
    Tensor y = x;
    for (int64_t i = 0; i < times; ++i) y = softmax(matmul((y * 2 + 1).relu(), weight), -1) + y;
    return std::pair(y, y.sum({1}));
  };
  const auto f = compile(body, {.fuse = Fuse::everything, .replay = true});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const no_grad silent;
      for (int64_t i = 0; i < 60; ++i) {
        const Tensor x =
            full({t == 3 ? i % 7 + 1 : 16, 24}, static_cast<double>(t) + 0.01 * double(i));
        const auto [expected, expected_sums] = body(x, 2);
        const auto [result, sums] = f(x, int64_t{2});
        if (!allclose(result, expected) || !allclose(sums, expected_sums)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(f.replayed(), 150u);
}

}  // namespace
}  // namespace tensora::test
