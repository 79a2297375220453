#include "tensora/train/trainer.h"

#include <cmath>
#include <csignal>

#include "../helpers.h"
#include "temporary_folder.h"
#include "tensora/nn/linear.h"
#include "tensora/optim/adamw.h"
#include "tensora/train/find_nan.h"
#include "tensora/train/run_history.h"

namespace tensora::train {
namespace {

using testing::contains;
using testing::error_of;
using testing::TemporaryFolder;

// A linear map that is fitted to another; dropout makes the random numbers matter.
struct Fit {
  explicit Fit(TrainerOptions options) : folder(options.folder) {
    manual_seed(7);
    model = nn::Linear(4, 2);
    optimizer = std::make_unique<optim::AdamW>(model.parameters(), optim::AdamWOptions{.lr = 0.05});
    TrainerTask task{
        .loss =
            [this](int64_t step, int64_t part) {
              if (step == raise_at && part == 0) std::raise(SIGINT);
              Generator data(uint64_t(step * 10 + part));
              const GeneratorScope scope(data);
              const Tensor x = randn({8, 4});
              const Tensor y = x.sum(1, true) + tensor({1.0, -1.0});
              const Tensor noise = [&] {
                const GeneratorScope apart(default_generator());
                return randn({8, 2}) * 0.01;
              }();
              return (model(x) - y + noise).square().mean() * scale;
            },
        .learning_rate = [steps = options.steps](
                             int64_t step) { return warmup_cosine(step, steps, 5, 0.05, 0.001); },
        .validate =
            [this] {
              return Scalars{{"loss/val", validated += 1}};
            },
        .sample = [] { return std::string("a sample"); }};
    trainer = std::make_unique<Trainer>(model, *optimizer, std::move(options), std::move(task));
  }
  std::vector<double> losses() const {
    for (const Curve& curve : read_run(folder).curves)
      if (curve.name == "loss/train") return curve.values;
    return {};
  }

  std::string folder;
  nn::Linear model{1, 1};
  std::unique_ptr<optim::AdamW> optimizer;
  std::unique_ptr<Trainer> trainer;
  int64_t raise_at = -1;
  double scale = 1, validated = 0;
};

TrainerOptions options_in(const std::string& folder) {
  return {.folder = folder,
          .steps = 40,
          .grad_accum = 2,
          .validate_every = 10,
          .sample_every = 20,
          .checkpoint_every = 7};
}

TEST(Trainer, LearnsAndTakesDown) {
  TemporaryFolder folder;
  Fit fit(options_in(folder.path("run")));
  const TrainerOutcome outcome = fit.trainer->run();
  EXPECT_EQ(outcome.step, 40);
  EXPECT_FALSE(outcome.interrupted);
  const std::vector<double> losses = fit.losses();
  ASSERT_EQ(losses.size(), 40u);
  EXPECT_LT(losses.back(), losses.front() / 2);
  EXPECT_EQ(outcome.loss, losses.back());
  EXPECT_EQ(outcome.validation, 5);  // before the first step, and each 10
}

TEST(Trainer, AnInterruptedRunGoesOnAsIfNothingHappened) {
  TemporaryFolder folder;
  Fit whole(options_in(folder.path("whole")));
  whole.trainer->run();
  for (const int64_t stop : {1, 6, 7, 8, 23, 39}) {
    const std::string path = folder.path(concat("run-", stop));
    {
      Fit first(options_in(path));
      first.raise_at = stop;
      const TrainerOutcome outcome = first.trainer->run();
      EXPECT_TRUE(outcome.interrupted);
      EXPECT_EQ(outcome.step, stop);
    }
    TrainerOptions options = options_in(path);
    options.resume = true;
    Fit rest(options);
    EXPECT_EQ(rest.trainer->run().step, 40);
    EXPECT_EQ(rest.losses(), whole.losses());
    EXPECT_TRUE(equal(rest.model.weight, whole.model.weight)) << stop;
  }
}

TEST(Trainer, ResumingWithoutACheckpointStarts) {
  TemporaryFolder folder;
  TrainerOptions options = options_in(folder.path("run"));
  options.resume = true;
  Fit fit(options);
  EXPECT_EQ(fit.trainer->run().step, 40);
  Fit again(options);
  EXPECT_EQ(again.trainer->run().step, 40);  // there is nothing left to do
  EXPECT_EQ(again.losses().size(), 40u);
}

TEST(Trainer, ALossThatIsNotFiniteStopsTheRun) {
  TemporaryFolder folder;
  Fit fit(options_in(folder.path("run")));
  fit.scale = NAN;
  EXPECT_TRUE(contains(error_of([&] { fit.trainer->run(); }), "the loss is nan at step 1"));
  TrainerOptions options = options_in(folder.path("named"));
  options.find_nan = true;
  Fit named(options);
  named.scale = 1e300;  // too much for float32
  const std::string error = error_of([&] { named.trainer->run(); });
  EXPECT_TRUE(contains(error, "not finite at step 1: the op mul made an infinite number")) << error;
}

TEST(Trainer, MistakesAreNamed) {
  TemporaryFolder folder;
  TrainerOptions options = options_in(folder.path("run"));
  options.grad_accum = 0;
  EXPECT_TRUE(
      contains(error_of([&] { Fit fit(options); }), "grad_accum must be at least 1, got 0"));
  options = options_in(folder.path("run"));
  options.amp = kFloat64;
  EXPECT_TRUE(contains(error_of([&] { Fit fit(options); }), "amp must be bfloat16 or float16"));
}

TEST(Trainer, MixedPrecisionRuns) {
  TemporaryFolder folder;
  TrainerOptions options = options_in(folder.path("run"));
  options.amp = kBFloat16;
  Fit fit(options);
  fit.trainer->run();
  EXPECT_LT(fit.losses().back(), fit.losses().front());
}

TEST(NanFinder, NamesTheOp) {
  NanFinder finder;
  const InterceptorScope scope(finder);
  const Tensor x = tensor({-1.0, 4.0});
  EXPECT_TRUE(contains(error_of([&] { sqrt(x) * 2; }), "the op sqrt made nan from finite numbers"));
  // What is spoiled already is not the op's fault.
  const Tensor spoiled = tensor({double(NAN)});
  EXPECT_EQ(error_of([&] { spoiled * 2; }), "");
}

TEST(WarmupCosine, Shape) {
  EXPECT_DOUBLE_EQ(warmup_cosine(5, 100, 10, 1, 0.1), 0.5);
  EXPECT_DOUBLE_EQ(warmup_cosine(10, 100, 10, 1, 0.1), 1);
  EXPECT_NEAR(warmup_cosine(55, 100, 10, 1, 0.1), 0.55, 1e-12);
  EXPECT_NEAR(warmup_cosine(100, 100, 10, 1, 0.1), 0.1, 1e-12);
  EXPECT_NEAR(warmup_cosine(500, 100, 10, 1, 0.1), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(warmup_cosine(1, 5, 0, 1, 1), 1);
}

}  // namespace
}  // namespace tensora::train
