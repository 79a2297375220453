// Lazy scopes: kernels run later, and nothing else can be told apart from eager execution.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tensora/jit/lazy.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

std::vector<float> values(const Tensor& tensor) { return to_vector<float>(tensor); }

Tensor ramp(const Shape& sizes) {
  return arange(sizes.numel(), {.dtype = kFloat32}).reshape(sizes);
}

TEST(Lazy, ResultsAreThereAfterTheScope) {
  const Tensor x = ramp({3, 4});
  Tensor y, v;
  {
    const LazyScope lazy;
    y = (x * 2 + 1).relu();
    v = y.transpose(0, 1).select(0, 1);
    EXPECT_EQ(y.impl().storage->data(), nullptr);
  }
  EXPECT_EQ(values(y), values((x * 2 + 1).relu()));
  EXPECT_EQ(values(v), values((x * 2 + 1).relu().select(1, 1)));
  EXPECT_NE((v + 1).data_ptr(), nullptr);
}

TEST(Lazy, ReadingAValueRunsWhatWasDeferred) {
  const LazyScope lazy;
  const Tensor x = ramp({4});
  const Tensor y = x + 1;
  EXPECT_EQ(y.sum().item<float>(), 10.0f);
  EXPECT_EQ((y * 2).at<float>({3}), 8.0f);
  EXPECT_EQ((y * 3).to_string(), "tensor([ 3.,  6.,  9., 12.])");
  EXPECT_EQ(values(y - 1), values(x));
}

TEST(Lazy, TheHostWritesInProgramOrder) {
  const Tensor x = ramp({4});
  Tensor before, after;
  {
    const LazyScope lazy;
    before = x * 1;
    x.at<float>({0}) = 7;
    after = x * 1;
    x.data_ptr<float>()[1] = 9;
  }
  EXPECT_EQ(values(before), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(values(after), (std::vector<float>{7, 1, 2, 3}));
}

TEST(Lazy, WritesInPlaceReachTensorsFromOutside) {
  const Tensor x = ramp({2, 3}), row = x.select(0, 1);
  const uint32_t version = x.version();
  {
    const LazyScope lazy;
    const Tensor old = x + 0;
    row.add_(10);
    x.transpose(0, 1).mul_(2);
    row.copy_(old.select(0, 0) + row);
    EXPECT_EQ(x.version(), version + 3);
    EXPECT_EQ(row.at<float>({0}), 26.0f);
  }
  EXPECT_EQ(values(x), (std::vector<float>{0, 2, 4, 26, 29, 32}));
}

TEST(Lazy, OverlappingWritesReadTheOldElements) {
  const auto shifted = [](const Tensor& x) {
    const Tensor y = x * 1;
    y.slice(0, 1, 5).copy_(y.slice(0, 0, 4));
    return y;
  };
  const Tensor x = ramp({5});
  Tensor lazily;
  {
    const LazyScope lazy;
    lazily = shifted(x);
  }
  EXPECT_EQ(values(lazily), values(shifted(x)));
}

TEST(Lazy, MistakesThrowAtTheirLine) {
  const Tensor x = ramp({2, 3});
  Tensor y;
  try {
    const LazyScope lazy;
    y = x + 1;
    matmul(y, y);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("matmul"), std::string::npos) << error.what();
  }
  EXPECT_EQ(values(y), values(x + 1));  // what came before has run
}

TEST(Lazy, AKernelThatFailsThrowsWhereItRuns) {
  const Tensor x = ramp({4}), place = tensor({9}, {.dtype = kInt64});
  const Tensor kept = zeros({4});
  Tensor before, bad, after;
  std::string message;
  try {
    const LazyScope lazy;
    before = x + 1;
    bad = index_select(x, 0, place);
    after = bad + 1;
    kept.add_(1);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("index_select"), std::string::npos) << message;
  EXPECT_EQ(values(before), values(x + 1));
  EXPECT_EQ(values(kept), values(zeros({4})));  // eager code would not have come so far
  EXPECT_THROW(after.data_ptr(), Error);
  EXPECT_THROW(after + 1, Error);
}

TEST(Lazy, RandomNumbersAreTheSame) {
  const auto draw = [] {
    manual_seed(5);
    const Tensor unused = rand({3});
    const Tensor x = dropout(ones({64}), 0.5, true);
    return x + randn({64}) * rand({64});
  };
  const Tensor eager = draw();
  Tensor lazily;
  {
    const LazyScope lazy;
    lazily = draw();
  }
  EXPECT_EQ(values(lazily), values(eager));
}

TEST(Lazy, TrainingStepsAreTheSame) {
  const auto train = [](bool lazily) {
    manual_seed(3);
    const Tensor x = randn({8, 5}), w = randn({5, 4}).requires_grad_(),
                 b = zeros({4}).requires_grad_();
    std::vector<float> losses;
    for (int step = 0; step < 5; ++step) {
      Tensor loss;
      const auto body = [&] {
        loss = log_softmax(gelu(matmul(x, w) + b), 1).select(1, 0).mean().neg();
        loss.backward();
        const no_grad silent;
        for (const Tensor& p : {w, b}) {
          p.sub_(p.grad() * 0.1);
          p.set_grad({});
        }
      };
      if (lazily) {
        const LazyScope lazy;
        body();
      } else {
        body();
      }
      losses.push_back(loss.item<float>());
    }
    for (float value : values(w.detach())) losses.push_back(value);
    return losses;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(Lazy, BackwardMayRunAfterTheScope) {
  const Tensor x = ramp({3}).requires_grad_();
  Tensor loss;
  {
    const LazyScope lazy;
    loss = (x * x).exp().sum();
  }
  loss.backward();
  const Tensor again = ramp({3}).requires_grad_();
  (again * again).exp().sum().backward();
  EXPECT_EQ(values(x.grad()), values(again.grad()));
}

TEST(Lazy, AnInnerScopeIsPartOfTheOuterOne) {
  const LazyScope outer;
  Tensor y;
  {
    const LazyScope inner;
    y = ramp({3}) + 1;
  }
  EXPECT_EQ(y.impl().storage->data(), nullptr);
  EXPECT_EQ(y.at<float>({2}), 3.0f);
}

TEST(Lazy, AnotherThreadIsTold) {
  const LazyScope lazy;
  const Tensor y = ramp({3}) + 1;
  std::string message;
  std::thread([&] {
    try {
      y + 1;
    } catch (const Error& error) {
      message = error.what();
    }
  }).join();
  EXPECT_NE(message.find("another thread"), std::string::npos) << message;
}

TEST(Lazy, GradientsAccumulateInPlaceAsInEager) {
  const auto owners = [](bool lazily) {
    const Tensor w = ones({4}).requires_grad_();
    std::unique_ptr<LazyScope> lazy;
    if (lazily) lazy = std::make_unique<LazyScope>();
    (w * 2).sum().backward();
    const void* first = w.grad().impl_ptr().get();
    (w * 3).sum().backward();
    return first == w.grad().impl_ptr().get();
  };
  EXPECT_EQ(owners(true), owners(false));
}

}  // namespace
}  // namespace tensora::test
