// A model that is divided over ranks against the same model on one.
#include "tensora/distributed/tensor_parallel.h"

#include "tensora/distributed/data_parallel.h"
#include "tensora/distributed/sharded_checkpoints.h"
#include "tensora/distributed/threads.h"
#include "tensora/distributed/vocabulary_parallel.h"
#include "tensora/models/llama.h"
#include "tensora/nn.h"
#include "tensora/nn/linear_cross_entropy.h"
#include "tensora/ops/optim/multi_tensor.h"
#include "tensora/optim/adamw.h"
#include "tests/helpers.h"
#include "tests/temporary_folder.h"

namespace tensora::testing {
namespace {

using distributed::run_ranks;
using distributed::shard_model;
using distributed::TensorParallel;
using distributed::TensorParallelOptions;
using models::LLaMA;
using models::LLaMAConfig;

constexpr int64_t kVocabulary = 37;

/// Nothing in it is a multiple of the numbers of ranks.
LLaMAConfig plain_config() {
  return {.vocab_size = kVocabulary,
          .hidden_size = 24,
          .intermediate_size = 41,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .max_position_embeddings = 32,
          .tie_word_embeddings = true};
}

/// Biases, normalised heads, an output matrix of its own, and heads that 3 ranks share unevenly.
LLaMAConfig rich_config() {
  LLaMAConfig config = plain_config();
  config.num_attention_heads = 8;
  config.head_dim = 6;
  config.tie_word_embeddings = false;
  config.attention_bias = config.attention_out_bias = config.mlp_bias = true;
  config.qk_norm = true;
  return config;
}

LLaMA make_model(const LLaMAConfig& config, DType dtype) {
  manual_seed(11);
  LLaMA model(config);
  const no_grad silent;
  for (const auto& [name, parameter] : model.named_parameters())
    if (parameter.dim() == 1) parameter.add_(randn(parameter.sizes()) * 0.1);
  model.to(dtype);
  return model;
}

struct Batch {
  Tensor tokens, targets;
};
Batch make_batch(uint64_t seed, int64_t positions = 12) {
  Generator own(seed);
  const GeneratorScope scope(own);
  const Tensor text = randint(0, kVocabulary, {3, positions + 1}, {.dtype = kInt64});
  Tensor targets = text.narrow(1, 1, positions).contiguous();
  targets[0][2].fill_(-100);
  return {text.narrow(1, 0, positions).contiguous(), targets};
}

/// What the loss and all gradients of one model are; those of the whole model on several ranks.
struct Outcome {
  double loss = 0, norm = 0;
  std::vector<std::pair<std::string, Values>> gradients = {};
};

Outcome on_one(LLaMA model, uint64_t seed) {
  const Batch batch = make_batch(seed);
  const Tensor loss = model(batch.tokens, batch.targets);
  loss.backward();
  Outcome result{.loss = loss.item<double>()};
  for (const auto& [name, parameter] : model.named_parameters())
    result.gradients.emplace_back(name, values(parameter.grad()));
  result.norm = clip_grad_norm_(model.parameters(), 0.1).item<double>();
  return result;
}

Outcome on_ranks(LLaMA model, const TensorParallelOptions& options, uint64_t seed) {
  TensorParallel parallel = shard_model(model, options);
  const Batch batch = make_batch(seed);
  const Tensor loss = model(batch.tokens, batch.targets);
  loss.backward();
  Outcome result{.loss = loss.item<double>()};
  for (const distributed::ParameterPart& part : parallel.parts())
    result.gradients.emplace_back(
        part.name, values(gather_whole(part, part.parameter.grad(), parallel.group())));
  result.norm = parallel.clip_grad_norm_(0.1).item<double>();
  return result;
}

void expect_close(const Outcome& got, const Outcome& wanted, double tolerance) {
  EXPECT_NEAR(got.loss, wanted.loss, tolerance);
  EXPECT_NEAR(got.norm, wanted.norm, tolerance);
  ASSERT_EQ(got.gradients.size(), wanted.gradients.size());
  for (size_t i = 0; i < wanted.gradients.size(); ++i) {
    const auto& [name, expected] = wanted.gradients[i];
    EXPECT_EQ(got.gradients[i].first, name);
    const Values& actual = got.gradients[i].second;
    ASSERT_EQ(actual.size(), expected.size()) << name;
    double worst = 0;
    for (size_t j = 0; j < expected.size(); ++j)
      worst = std::max(worst, std::abs(actual[j] - expected[j]));
    EXPECT_LE(worst, tolerance) << name;
  }
}

class Divided : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(Divided, GivesTheLossAndTheGradientsOfOneProcess) {
  const auto [ranks, sequence] = GetParam();
  for (const LLaMAConfig& config : {plain_config(), rich_config()})
    for (const DType dtype : {kFloat64, kFloat32}) {
      SCOPED_TRACE(concat(config.num_attention_heads, " heads, ", dtype));
      const Outcome wanted = on_one(make_model(config, dtype), 5);
      run_ranks(ranks, [&](ProcessGroup&) {
        expect_close(on_ranks(make_model(config, dtype), {.sequence_parallel = sequence}, 5),
                     wanted, dtype == kFloat64 ? 1e-12 : 1e-5);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Divided,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Bool()));

TEST(TensorParallel, RecomputesCheckpointedBlocks) {
  const Outcome wanted = on_one(make_model(rich_config(), kFloat64), 5);
  for (const bool sequence : {false, true})
    run_ranks(3, [&](ProcessGroup&) {
      LLaMA model = make_model(rich_config(), kFloat64);
      model.checkpoint_activations = true;
      expect_close(on_ranks(model, {.sequence_parallel = sequence}, 5), wanted, 1e-12);
    });
}

TEST(TensorParallel, TrainsWithDataParallelAsOneProcess) {
  const auto train = [](LLaMA& model, optim::AdamW& optimizer, auto backward, auto clip) {
    for (uint64_t step = 0; step < 4; ++step) {
      backward(step);
      clip();
      optimizer.step();
      optimizer.zero_grad();
    }
    (void)model;
  };
  const auto loss_of = [](LLaMA& model, uint64_t seed) {
    const Batch batch = make_batch(seed);
    return model(batch.tokens, batch.targets);
  };
  LLaMA alone = make_model(rich_config(), kFloat64);
  optim::AdamW plain(alone.parameters(), {.lr = 1e-2});
  train(
      alone, plain,
      [&](uint64_t step) {
        ((loss_of(alone, 2 * step) + loss_of(alone, 2 * step + 1)) / 2).backward();
      },
      [&] { clip_grad_norm_(alone.parameters(), 0.5); });
  run_ranks(4, [&](ProcessGroup&) {
    LLaMA model = make_model(rich_config(), kFloat64);
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
    const distributed::ParallelGroups groups = distributed::split_world(2);
    TensorParallel tensor = shard_model(model, {.group = groups.tensor});
    auto data = distributed::data_parallel(model, {.group = groups.data});
    const auto part = static_cast<uint64_t>(groups.data->rank());
    train(
        model, optimizer, [&](uint64_t step) { loss_of(model, 2 * step + part).backward(); },
        [&] { tensor.clip_grad_norm_(0.5); });
    for (const auto& [name, whole] : tensor.whole_state_dict()) {
      const Tensor difference = (whole - alone.state_dict().at(name)).abs().max();
      EXPECT_LT(difference.item<double>(), 1e-10) << name;
    }
  });
}

TEST(TensorParallel, GivesLogitsAndTokensOfTheWholeModel) {
  LLaMA alone = make_model(rich_config(), kFloat64);
  const Tensor tokens = make_batch(3, 7).tokens;
  const Tensor logits = alone(tokens).detach();
  const Tensor text = alone.generate(tokens, {.max_new_tokens = 12, .temperature = 0});
  alone(tokens).square().mean().backward();
  for (const int ranks : {2, 3})
    run_ranks(ranks, [&](ProcessGroup& world) {
      LLaMA model = make_model(rich_config(), kFloat64);
      TensorParallel parallel = shard_model(model, {.sequence_parallel = ranks == 3});
      {
        const no_grad silent;
        EXPECT_LT((model(tokens) - logits).abs().max().item<double>(), 1e-12);
      }
      EXPECT_EQ(values(model.generate(tokens, {.max_new_tokens = 12, .temperature = 0})),
                values(text));
      if (world.size() == 3) return;  // 7 positions are no multiple
      model(tokens).square().mean().backward();
      for (const distributed::ParameterPart& part : parallel.parts()) {
        const Tensor grad = gather_whole(part, part.parameter.grad(), world);
        const Tensor wanted = alone.get_parameter(part.name).grad();
        EXPECT_LT((grad - wanted).abs().max().item<double>(), 1e-12) << part.name;
      }
    });
}

TEST(TensorParallel, TakesAndGivesWholeModels) {
  LLaMA other = make_model(rich_config(), kFloat32);
  {
    const no_grad silent;
    for (const Tensor& parameter : other.parameters()) parameter.mul_(-1.5);
  }
  const StateDict state = other.state_dict();
  const Batch batch = make_batch(1);
  const double loss = other(batch.tokens, batch.targets).item<double>();
  run_ranks(3, [&](ProcessGroup&) {
    LLaMA model = make_model(rich_config(), kFloat32);
    TensorParallel parallel = shard_model(model);
    parallel.load_whole_state_dict(state);
    const StateDict back = parallel.whole_state_dict();
    ASSERT_EQ(back.size(), state.size());
    for (const auto& [name, tensor] : state)
      EXPECT_EQ(values(back.at(name)), values(tensor)) << name;
    EXPECT_NEAR(model(batch.tokens, batch.targets).item<double>(), loss, 1e-5);
    parallel.with_whole_parameters([&] {
      EXPECT_EQ(model(batch.tokens, batch.targets).item<double>(), loss);
      for (const auto& [name, tensor] : model.state_dict())
        EXPECT_EQ(values(tensor), values(state.at(name))) << name;
    });
    EXPECT_NEAR(model(batch.tokens, batch.targets).item<double>(), loss, 1e-5);
    StateDict wrong = state;
    wrong.set("model.norm.weight", zeros({5}));
    EXPECT_TRUE(contains(error_of([&] { parallel.load_whole_state_dict(wrong); }), "model.norm"));
    EXPECT_EQ(values(parallel.whole_state_dict().at("lm_head.weight")),
              values(state.at("lm_head.weight")));
    EXPECT_TRUE(contains(parallel.describe(), "o_proj.weight: [24, 48], divided along dim 1"))
        << parallel.describe();
  });
}

/// A model on a grid of tensor and data ranks, with its checkpoints.
struct Grid {
  explicit Grid(int tensor_ranks)
      : groups(distributed::split_world(tensor_ranks)),
        model(make_model(rich_config(), kFloat32)),
        optimizer(model.parameters(), {.lr = 1e-2}),
        tensor(model, {.group = groups.tensor}),
        data(model, {.group = groups.data}) {}
  void train(uint64_t seed) {
    const Batch batch = make_batch(2 * seed + static_cast<uint64_t>(groups.data->rank()));
    model(batch.tokens, batch.targets).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  void save(const std::string& folder, int64_t step) {
    distributed::ShardedCheckpoints(folder).save(step, model, data, optimizer, {}, &tensor);
  }
  void load(const std::string& folder) {
    ASSERT_TRUE(distributed::ShardedCheckpoints(folder)
                    .load_latest(model, data, optimizer, &tensor)
                    .has_value());
  }

  distributed::ParallelGroups groups;
  LLaMA model;
  optim::AdamW optimizer;
  TensorParallel tensor;
  distributed::DataParallel data;
};

/// What is in a checkpoint, as one process without any division loads it.
std::vector<Values> contents(const std::string& folder) {
  LLaMA model = make_model(rich_config(), kFloat32);
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  distributed::DataParallel alone(model);
  EXPECT_TRUE(
      distributed::ShardedCheckpoints(folder).load_latest(model, alone, optimizer).has_value());
  std::vector<Values> all;
  for (const Tensor& parameter : model.parameters()) all.push_back(values(parameter.detach()));
  for (const Tensor& parameter : optimizer.parameters())
    for (const char* key : {"step", "exp_avg", "exp_avg_sq"})
      all.push_back(values(optimizer.state(parameter).at(key).to_tensor()));
  return all;
}

TEST(TensorParallel, SavesCheckpointsThatAnyGridLoads) {
  const TemporaryFolder folder;
  run_ranks(4, [&](ProcessGroup&) {
    Grid grid(2);
    for (uint64_t step = 0; step < 3; ++step) grid.train(step);
    grid.save(folder / "first", 3);
    const StateDict whole = grid.tensor.whole_state_dict();
    const std::vector<Values> saved = contents(folder / "first");
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(saved[i], values((whole.begin() + static_cast<int64_t>(i))->second));
  });
  const std::vector<Values> expected = contents(folder / "first");
  for (const auto& [ranks, tensor_ranks] : {std::pair{3, 3}, {4, 4}, {2, 1}, {4, 2}}) {
    const std::string again = folder / concat("again-", ranks, "-", tensor_ranks);
    run_ranks(ranks, [&, tensor_ranks = tensor_ranks](ProcessGroup&) {
      Grid grid(tensor_ranks);
      grid.load(folder / "first");
      grid.save(again, 4);
    });
    EXPECT_EQ(contents(again), expected) << ranks << " ranks, " << tensor_ranks << " per model";
  }
}

TEST(TensorParallel, TakesRankZerosParametersAndGroupsOfRanks) {
  const Outcome wanted = on_one(make_model(plain_config(), kFloat64), 2);
  run_ranks(4, [&](ProcessGroup& world) {
    LLaMA model = make_model(plain_config(), kFloat64);
    if (world.rank() % 2 == 1) {
      const no_grad silent;
      for (const Tensor& parameter : model.parameters()) parameter.zero_();
    }
    const TensorParallel parallel = shard_model(model, 2);
    EXPECT_EQ(parallel.group().size(), 2);
    const Batch batch = make_batch(2);
    EXPECT_NEAR(model(batch.tokens, batch.targets).item<double>(), wanted.loss, 1e-12);
  });
}

TEST(TensorParallel, ComputesTheLossInPieces) {
  const Tensor x = randn({11, 6}, {.dtype = kFloat64});
  const Tensor w = randn({kVocabulary, 6}, {.dtype = kFloat64});
  Tensor targets = randint(0, kVocabulary, {11}, {.dtype = kInt64});
  targets[4].fill_(-100);
  const Tensor input = x.clone().requires_grad_(), weight = w.clone().requires_grad_();
  const Tensor wanted = nn::linear_cross_entropy(input, weight, targets) * 3;
  wanted.backward();
  run_ranks(3, [&](ProcessGroup& world) {
    const distributed::VocabularyPart part{kVocabulary, tensora::world()};
    const auto rows = part.rows();
    const Tensor own = w.narrow(0, rows.begin, rows.size()).clone().requires_grad_();
    const Tensor here = x.clone().requires_grad_();
    // 13 float64 scores a row: two rows at a time.
    const Tensor loss =
        distributed::vocabulary_cross_entropy(here, own, targets, part, {.chunk_bytes = 210}) * 3;
    EXPECT_NEAR(loss.item<double>(), wanted.item<double>(), 1e-12);
    loss.backward();
    const Tensor sum = here.grad().clone();
    world.all_reduce(sum.view_of_data())->wait();
    EXPECT_LT((sum - input.grad()).abs().max().item<double>(), 1e-12);
    const Tensor rows_grad = weight.grad().narrow(0, rows.begin, rows.size());
    EXPECT_LT((own.grad() - rows_grad).abs().max().item<double>(), 1e-12);
  });
}

TEST(TensorParallel, RefusesWhatItCannotDivide) {
  run_ranks(2, [&](ProcessGroup&) {
    nn::Linear layer(3, 4);
    EXPECT_TRUE(contains(error_of([&] { shard_model(layer); }), "expected a models::LLaMA"));
    LLaMAConfig config = plain_config();
    config.num_attention_heads = config.num_key_value_heads = 1;
    LLaMA one_head(config);
    EXPECT_TRUE(contains(error_of([&] { shard_model(one_head); }), "1 attention heads"));
    config = plain_config();
    config.attention_dropout = 0.1;
    LLaMA dropping(config);
    EXPECT_TRUE(contains(error_of([&] { shard_model(dropping); }), "attention_dropout"));
    EXPECT_TRUE(contains(error_of([&] { distributed::split_world(3); }), "groups of 3"));

    LLaMA model(plain_config());
    TensorParallel parallel = shard_model(model, {.sequence_parallel = true});
    Batch batch = make_batch(1, 7);
    EXPECT_TRUE(contains(error_of([&] { model(batch.tokens, batch.targets); }),
                         "multiple of the 2 ranks, got 7"));
    batch = make_batch(1);
    batch.targets[0][0].fill_(kVocabulary);
    EXPECT_TRUE(contains(error_of([&] { model(batch.tokens, batch.targets); }), "0 to 36"));
    batch.tokens[0][0].fill_(-1);
    EXPECT_TRUE(contains(error_of([&] { model(batch.tokens); }), "0 to 36"));
  });
}

}  // namespace
}  // namespace tensora::testing
