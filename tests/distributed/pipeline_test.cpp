// Pipelines: the tables, and training that equals one process.
#include "tensora/distributed/pipeline.h"

#include "tensora/base/error_kinds.h"
#include "tensora/core/determinism.h"
#include "tensora/distributed/threads.h"
#include "tensora/nn.h"
#include "tensora/optim/adamw.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

using distributed::check_pipeline_schedule;
using distributed::make_pipeline_schedule;
using distributed::Pipeline;
using distributed::PipelineActionKind;
using distributed::PipelineSchedule;
using distributed::run_ranks;

TEST(Pipeline, SchedulesAreComplete) {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (int batches = 1; batches <= 13; ++batches) {
      for (const char* name : {"gpipe", "1f1b", "zero-bubble"})
        EXPECT_NO_THROW(check_pipeline_schedule(make_pipeline_schedule(name, ranks, batches)));
      for (int chunks = 1; chunks <= 3 && batches % ranks == 0; ++chunks)
        EXPECT_NO_THROW(
            check_pipeline_schedule(make_pipeline_schedule("interleaved", ranks, batches, chunks)));
    }
}

TEST(Pipeline, IdleTimeAndMemory) {
  const auto check = [](const char* name, int chunks = 1) {
    return check_pipeline_schedule(make_pipeline_schedule(name, 4, 8, chunks));
  };
  // (p - 1) / (m + p - 1) of the time is idle; interleaving divides p - 1 by the chunks.
  EXPECT_NEAR(check("gpipe").idle, 3.0 / 11, 1e-12);
  EXPECT_NEAR(check("1f1b").idle, 3.0 / 11, 1e-12);
  EXPECT_NEAR(check("interleaved", 2).idle, 1.5 / 9.5, 1e-12);
  EXPECT_NEAR(check("zero-bubble").idle, 3.0 / 27, 1e-12);  // a third of 1f1b's idle time
  EXPECT_EQ(check("gpipe").kept, (std::vector<int>{8, 8, 8, 8}));
  EXPECT_EQ(check("1f1b").kept, (std::vector<int>{4, 3, 2, 1}));
  for (const int kept : check("zero-bubble").kept) EXPECT_LE(kept, 4);
  EXPECT_EQ(make_pipeline_schedule("1f1b", 2, 3).table(), "F0 F1 B0 F2 B1 B2\nF0 B0 F1 B1 F2 B2\n");
}

TEST(Pipeline, WrongSchedulesAreRefused) {
  PipelineSchedule schedule = make_pipeline_schedule("1f1b", 2, 4);
  const auto says = [&](const std::string& text) {
    try {
      check_pipeline_schedule(schedule);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      schedule = make_pipeline_schedule("1f1b", 2, 4);
      return;
    }
    FAIL() << "expected: " << text;
  };
  std::swap(schedule.actions[1][0], schedule.actions[1][1]);
  says("waits for ever before the backward of micro-batch 0 in stage");
  schedule.actions[0].pop_back();
  says("stage 0 has 4 forwards, 3 gradients");
  schedule.actions[0].push_back({PipelineActionKind::forward, 0, 2});
  says("comes twice");
  std::swap(schedule.actions[0].front().micro_batch, schedule.actions[0][1].micro_batch);
  says("sends its activations in another order");
  std::swap(schedule.actions[0].back().micro_batch, schedule.actions[0].rbegin()[1].micro_batch);
  says("not in the order of micro-batches");
  schedule.actions[0][0].stage = 1;
  says("is on rank 0");
  EXPECT_THROW(make_pipeline_schedule("interleaved", 4, 6, 2), ValueError);
  EXPECT_THROW(make_pipeline_schedule("1f1b", 4, 6, 2), ValueError);
  EXPECT_THROW(make_pipeline_schedule("sideways", 4, 6), ValueError);
}

constexpr int kLayers = 6, kBatches = 6, kRows = 12, kWidth = 20;

/// Linear layers with a norm between; the weight of a layer is used twice in it.
struct Layers {
  Layers() {
    manual_seed(3);
    for (int i = 0; i < kLayers; ++i) {
      linears.push_back(nn::Linear(kWidth, kWidth));
      norms.push_back(nn::LayerNorm(Shape{kWidth}));
    }
  }
  Tensor run(int begin, int end, Tensor x) const {
    for (int i = begin; i < end; ++i) {
      const nn::Linear& linear = linears[static_cast<size_t>(i)];
      x = x + tanh(linear(norms[static_cast<size_t>(i)](x)));
      if (i % 2 == 1) x = x + matmul(x, linear.weight * 0.1);
    }
    return x;
  }
  std::vector<Tensor> parameters(int begin, int end) const {
    std::vector<Tensor> all;
    for (int i = begin; i < end; ++i)
      for (const nn::Module* module :
           {static_cast<const nn::Module*>(&linears[static_cast<size_t>(i)]),
            static_cast<const nn::Module*>(&norms[static_cast<size_t>(i)])})
        for (const Tensor& parameter : module->parameters()) all.push_back(parameter);
    return all;
  }
  std::vector<nn::Linear> linears;
  std::vector<nn::LayerNorm> norms;
};

Tensor input_of(int step) {
  Generator own(static_cast<uint64_t>(100 + step));
  const GeneratorScope scope(own);
  return randn({kRows, kWidth});
}
Tensor loss_of(const Tensor& y, int micro_batch) {
  return (y * y).mean() * (1.0 + micro_batch) / kBatches;
}

struct Outcome {
  std::vector<std::vector<float>> parameters;
  std::vector<float> losses;
};

Outcome train_alone(int steps) {
  const DeterministicScope mode(true);
  const Layers model;
  optim::AdamW optimizer(model.parameters(0, kLayers), {.lr = 1e-2});
  Outcome outcome;
  for (int step = 0; step < steps; ++step) {
    const auto parts = chunk(input_of(step), kBatches, 0);
    for (int i = 0; i < kBatches; ++i) {
      const Tensor loss = loss_of(model.run(0, kLayers, parts[static_cast<size_t>(i)]), i);
      outcome.losses.push_back(loss.item<float>());
      loss.backward();
    }
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const Tensor& parameter : model.parameters(0, kLayers))
    outcome.parameters.push_back(to_vector<float>(parameter.detach()));
  return outcome;
}

// Each rank trains its stages; the parameters are put together again in the order of layers.
Outcome train_in_pipeline(const std::string& schedule, int ranks, int chunks, int steps) {
  Outcome outcome;
  const int stages = ranks * chunks, per_stage = kLayers / stages;
  std::vector<std::vector<std::vector<float>>> by_stage(static_cast<size_t>(stages));
  run_ranks(ranks, [&](ProcessGroup& world) {
    const DeterministicScope mode(true);
    const Layers model;
    std::vector<Pipeline::Stage> mine;
    std::vector<Tensor> parameters;
    for (int s = world.rank(); s < stages; s += ranks) {
      const int begin = s * per_stage;
      mine.emplace_back([&model, begin, per_stage](const Tensor& x) {
        return model.run(begin, begin + per_stage, x);
      });
      for (const Tensor& p : model.parameters(begin, begin + per_stage)) parameters.push_back(p);
    }
    optim::AdamW optimizer(parameters, {.lr = 1e-2});
    Pipeline pipeline(mine, {.schedule = schedule, .micro_batches = kBatches});
    for (int step = 0; step < steps; ++step) {
      const Tensor losses = pipeline.step(world.rank() == 0 ? input_of(step) : Tensor(), loss_of);
      if (world.rank() == ranks - 1)
        for (const float loss : to_vector<float>(losses)) outcome.losses.push_back(loss);
      optimizer.step();
      optimizer.zero_grad();
    }
    for (int s = world.rank(); s < stages; s += ranks)
      for (const Tensor& p : model.parameters(s * per_stage, (s + 1) * per_stage))
        by_stage[static_cast<size_t>(s)].push_back(to_vector<float>(p.detach()));
  });
  for (const auto& stage : by_stage)
    outcome.parameters.insert(outcome.parameters.end(), stage.begin(), stage.end());
  return outcome;
}

TEST(Pipeline, HasTheBitsOfOneProcess) {
  const int steps = 8;
  const Outcome alone = train_alone(steps);
  struct Case {
    const char* schedule;
    int ranks, chunks;
  };
  for (const auto& [schedule, ranks, chunks] : {Case{"gpipe", 2, 1},
                                                {"gpipe", 3, 1},
                                                {"1f1b", 1, 1},
                                                {"1f1b", 2, 1},
                                                {"1f1b", 3, 1},
                                                {"interleaved", 1, 3},
                                                {"interleaved", 2, 3},
                                                {"interleaved", 3, 2},
                                                {"zero-bubble", 1, 1},
                                                {"zero-bubble", 2, 1},
                                                {"zero-bubble", 3, 1},
                                                {"zero-bubble", 6, 1}}) {
    const Outcome piped = train_in_pipeline(schedule, ranks, chunks, steps);
    EXPECT_EQ(piped.losses, alone.losses) << schedule << " on " << ranks;
    EXPECT_EQ(piped.parameters, alone.parameters) << schedule << " on " << ranks;
  }
}

TEST(Pipeline, WithDataParallelRanks) {
  const DeterministicScope mode(true);
  const Layers alone;
  for (int replica = 0; replica < 2; ++replica)
    for (int i = 0; i < 2; ++i)
      loss_of(alone.run(0, kLayers, chunk(input_of(replica), 2, 0)[static_cast<size_t>(i)]), i)
          .backward();
  struct Half : nn::Layer<Half> {
    explicit Half(const Layers& model, int begin) {
      for (int i = begin; i < begin + kLayers / 2; ++i) {
        register_module(concat("linear", i), model.linears[static_cast<size_t>(i)]);
        register_module(concat("norm", i), model.norms[static_cast<size_t>(i)]);
      }
    }
    Tensor forward(const Tensor& x) const { return x; }
  };
  run_ranks(4, [&](ProcessGroup& world) {
    const DeterministicScope deterministic(true);
    const Layers model;
    const int stage = world.rank() / 2, replica = world.rank() % 2, begin = stage * kLayers / 2;
    const auto pipe = world.split(replica, stage), replicas = world.split(stage, replica);
    Half half(model, begin);
    auto parallel = distributed::data_parallel(half, {.group = replicas});
    Pipeline pipeline({[&](const Tensor& x) { return model.run(begin, begin + kLayers / 2, x); }},
                      {.group = pipe, .schedule = "zero-bubble", .micro_batches = 2});
    pipeline.step(stage == 0 ? input_of(replica) : Tensor(), loss_of, &parallel);
    const auto mine = model.parameters(begin, begin + kLayers / 2);
    const auto theirs = alone.parameters(begin, begin + kLayers / 2);
    for (size_t i = 0; i < mine.size(); ++i)
      EXPECT_TRUE(allclose(mine[i].grad(), theirs[i].grad() * 0.5, 1e-5, 1e-7)) << i;
  });
}

TEST(Pipeline, MistakesAreErrorsOnAllRanks) {
  const auto fails = [](const auto& body, const std::string& text) {
    try {
      run_ranks(2, body);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      return;
    }
    FAIL() << "expected: " << text;
  };
  const auto stage = [](const Tensor& x) { return x * 2.0; };
  fails([&](ProcessGroup& world) { Pipeline({stage}, {.micro_batches = 2 + world.rank()}); },
        "different schedules");
  fails(
      [&](ProcessGroup&) {
        Pipeline pipeline({stage}, {.micro_batches = 4});
        pipeline.step(ones({6, 2}), loss_of);
      },
      "6 rows cannot be cut into 4");
  fails(
      [&](ProcessGroup& world) {
        int calls = 0;
        Pipeline pipeline({[&](const Tensor& x) {
                            if (world.rank() == 0 && ++calls == 2) return x.narrow(0, 0, 1);
                            return x * 2.0;
                          }},
                          {.micro_batches = 2});
        pipeline.step(ones({4, 2}, {.requires_grad = true}), loss_of);
      },
      "for the first micro-batch");
  EXPECT_THROW(Pipeline({}, {}), ValueError);
}

}  // namespace
}  // namespace tensora::testing
