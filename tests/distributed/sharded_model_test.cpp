// A model for inference that is divided over threads, against the same model on one.
#include "tensora/distributed/sharded_model.h"

#include "tensora/distributed/rank_threads.h"
#include "tensora/llm/engine.h"
#include "tests/llm/random_weights.h"
#include "tests/llm/sequences.h"

namespace tensora::testing {
namespace {

using distributed::make_sharded_model;
using distributed::RankThreads;
using namespace llm;
using namespace llm::testing;

struct Kind {
  std::string architecture;
  int64_t heads = 4, kv_heads = 2, experts = 0, window = 0;
  bool fused = false;
};

ModelConfig config_of(const Kind& kind) {
  Metadata data = small_metadata(kind.architecture);
  const std::string prefix = kind.architecture + ".";
  data.set(prefix + "attention.head_count", kind.heads);
  data.set(prefix + "attention.head_count_kv", kind.kv_heads);
  data.set(prefix + "attention.key_length", 32);
  data.set(prefix + "attention.value_length", 32);
  data.set(prefix + "feed_forward_length", 160);
  if (kind.experts > 0) {
    data.set(prefix + "expert_count", kind.experts);
    data.set(prefix + "expert_used_count", 2);
  }
  if (kind.window > 0) data.set(prefix + "attention.sliding_window", kind.window);
  return checked_config(data);
}

TEST(ShardedModel, GivesTheLogitsOfOneThread) {
  const Kind kinds[] = {{"llama"},
                        {"llama", 8, 2},  // 3 ranks: groups of unequal size
                        {"llama", 6, 1, 0, 5},
                        {"llama", 4, 2, 4},  // experts
                        {"qwen2"},           // biases
                        {"qwen3"},
                        {"gemma2", 4, 2, 0, 5},
                        {"phi3", 4, 4, 0, 0, true}};
  for (const Kind& kind : kinds)
    for (const DType dtype : {kFloat32, kQ8_0}) {
      SCOPED_TRACE(concat(kind.architecture, ", ", kind.heads, " heads, ", dtype));
      const ModelConfig config = config_of(kind);
      RandomWeights weights;
      weights.fused = kind.fused;
      weights.dtype = dtype;
      const auto whole = make_model(config, weights);
      const std::vector<Tokens> prompts{some_tokens(9, 50), some_tokens(5, 50, 3)};
      Sequences alone(*whole, {.count = 2});
      const Tensor prefill = alone.feed(prompts), decode = alone.feed({{7}, {11}});
      for (const int ranks : {1, 2, 3, 4}) {
        SCOPED_TRACE(ranks);
        const auto model = make_sharded_model(config, weights, ranks);
        Sequences divided(*model, {.count = 2});
        // Activations are rounded to 8 bits beside q8_0: a sum in another order may round
        // otherwise.
        const double tolerance = dtype == kFloat32 ? 1e-5 : 1e-2;
        EXPECT_LT(difference(divided.feed(prompts), prefill), tolerance);
        EXPECT_LT(difference(divided.feed({{7}, {11}}), decode), tolerance);
        EXPECT_EQ(divided.cache().bytes(),
                  divided.cache().num_blocks() *
                      PagedCache::bytes_per_block(model->config(), 4, kFloat32));
      }
    }
}

// Blocks of 256 numbers: of 8 heads of 64 numbers, 4 stay together.
TEST(ShardedModel, CutsQuantizedMatricesBetweenBlocks) {
  Metadata data = small_metadata("llama");
  data.set("llama.embedding_length", 256);
  data.set("llama.attention.head_count", 8);
  data.set("llama.attention.key_length", 64);
  data.set("llama.attention.value_length", 64);
  data.set("llama.feed_forward_length", 768);
  const ModelConfig config = checked_config(data);
  RandomWeights weights;
  weights.dtype = kQ4_K;
  const auto whole = make_model(config, weights);
  const Tensor expected = Sequences(*whole, {}).feed({some_tokens(9, 50)});
  const auto model = make_sharded_model(config, weights, 2);
  EXPECT_LT(difference(Sequences(*model, {}).feed({some_tokens(9, 50)}), expected), 1e-2);
  EXPECT_EQ(model->config().kv_heads_by_rank, (std::vector<int64_t>{1, 1}));
  EXPECT_TRUE(contains(error_of([&] { make_sharded_model(config, weights, 3); }),
                       "8 attention heads, of which 4 stay together"));
}

TEST(ShardedModel, AnswersInTheEngineAsOneThread) {
  const ModelConfig config = config_of({"llama"});
  RandomWeights weights;
  const auto answer = [&](std::shared_ptr<const Model> model, int64_t seed) {
    Engine engine({.model = std::move(model)}, {.context = 64, .max_sequences = 4});
    std::vector<Generation> running;
    for (int64_t i = 0; i < 4; ++i) {
      Request request;
      for (const int64_t token : some_tokens(20, 50, seed + i % 2))  // two share a prefix
        request.tokens.push_back(static_cast<int32_t>(token));
      request.max_tokens = 24;
      request.sampling.temperature = 0;
      running.push_back(engine.submit(std::move(request)));
    }
    std::vector<std::vector<int32_t>> tokens;
    for (Generation& generation : running) tokens.push_back(generation.wait().tokens);
    return tokens;
  };
  const auto whole = make_model(config, weights);
  for (const int64_t seed : {1, 4}) {
    const auto expected = answer(whole, seed);
    for (const int ranks : {2, 3})
      EXPECT_EQ(answer(make_sharded_model(config, weights, ranks), seed), expected) << ranks;
  }
}

TEST(ShardedModel, RefusesMistakesAndGoesOn) {
  const ModelConfig config = config_of({"llama"});
  RandomWeights weights;
  EXPECT_TRUE(contains(error_of([&] { make_sharded_model(config, weights, 5); }),
                       "cannot be divided over 5 ranks"));
  EXPECT_TRUE(contains(error_of([&] { make_sharded_model(config, weights, 0); }), "1 to 1024"));
  const auto model = make_sharded_model(config, weights, 2);
  Sequences sequences(*model, {});
  Batch wrong = sequences.batch({some_tokens(3, 50)});
  wrong.max_length = 100000;
  EXPECT_TRUE(contains(error_of([&] { model->forward(wrong, sequences.cache()); }), "positions"));
  PagedCache undivided =
      PagedCache::make(checked_config(small_metadata("llama")), 4, 4, kFloat32, {});
  Batch batch = Sequences(*model, {}).batch({some_tokens(3, 50)});
  EXPECT_TRUE(contains(error_of([&] { model->forward(batch, undivided); }), "for 2 ranks"));
  batch.is_abandoned = [] { return true; };
  EXPECT_THROW(model->forward(batch, sequences.cache()), StepAbandoned);
  EXPECT_EQ(Sequences(*model, {}).feed({some_tokens(3, 50)}).size(1), 50);
}

TEST(RankThreads, CallsComeAgainAndErrorsReachTheCaller) {
  RankThreads threads(3);
  std::atomic<int> sum = 0;
  for (int call = 0; call < 200; ++call)
    threads.run([&](ProcessGroup& world) {
      const Tensor x = full({5}, world.rank() + 1.0);
      world.all_reduce(x.view_of_data(), ReduceOp::sum, CallMode::blocking)->wait();
      if (x[4].item<double>() == 6) ++sum;
    });
  EXPECT_EQ(sum, 600);
  EXPECT_TRUE(contains(error_of([&] {
                         threads.run([&](ProcessGroup& world) {
                           if (world.rank() == 1) fail("a mistake");
                           world.barrier();  // for which nobody waits in vain
                         });
                       }),
                       "a mistake"));
  EXPECT_TRUE(contains(error_of([&] { threads.run([](ProcessGroup&) {}); }), "a mistake"));
}

}  // namespace
}  // namespace tensora::testing
