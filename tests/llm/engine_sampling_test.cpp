// Sequences with large vocabularies, which the engine samples on several threads.
#include <gtest/gtest.h>

#include "../helpers.h"
#include "tensora/base/thread_pool.h"
#include "tensora/llm/engine.h"
#include "toy_model.h"

namespace tensora::llm {
namespace {

using namespace testing;

constexpr int64_t kWords = 40'000;
constexpr int64_t kPoison = 7;  // what follows it has no logits

// Its logits follow from the last token and its position.
class WideModel final : public Model {
 public:
  WideModel() : Model(config_of(), Device()) {}
  static ModelConfig config_of() {
    ModelConfig config = ToyModel::config_of(64);
    config.vocab_size = kWords;
    return config;
  }
  Tensor forward(const Batch& batch, PagedCache&) const override {
    Tensor logits = zeros({batch.logit_rows.size(0), kWords});
    for (int64_t row = 0; row < logits.size(0); ++row) {
      const int64_t place = batch.logit_rows.data_ptr<int64_t>()[row];
      const auto token = static_cast<uint64_t>(batch.tokens.data_ptr<int64_t>()[place]);
      const auto position = static_cast<uint64_t>(batch.positions.data_ptr<int64_t>()[place]);
      float* out = logits.data_ptr<float>() + row * kWords;
      for (uint64_t v = 0; v < kWords; ++v) {
        const uint64_t hash = (v * 2654435761u + token * 40503u + position) * 0x9e3779b97f4a7c15u;
        out[v] = static_cast<float>(hash >> 40) / static_cast<float>(1 << 20);
      }
      if (token == kPoison) out[kWords - 1] = std::numeric_limits<float>::quiet_NaN();
    }
    return logits;
  }
  Tensor hidden(const Batch& batch, PagedCache& cache) const override {
    return forward(batch, cache);
  }
  int64_t bytes() const override { return 1; }
};

Request request_of(uint64_t number) {
  Request request{.tokens = {static_cast<int32_t>(100 + number)}, .max_tokens = 8};
  request.sampling.seed = number;
  request.sampling.temperature = number % 3 == 0 ? 0 : 1.5;
  if (number % 4 == 1) request.sampling.logprobs = true, request.sampling.top_logprobs = 3;
  if (number % 5 == 2) request.sampling.repeat_penalty = 1.2;
  return request;
}

TEST(EngineSampling, ManySequencesAreSampledAsOne) {
  constexpr uint64_t kRequests = 20;
  const int threads = get_num_threads();
  const auto answers = [&](int64_t together) {
    Engine engine({std::make_shared<WideModel>(), nullptr, {}},
                  {.max_sequences = together, .cache_dtype = kFloat32});
    std::vector<Generation> running;
    for (uint64_t i = 0; i < kRequests; ++i) running.push_back(engine.submit(request_of(i)));
    std::vector<Completion> out;
    for (Generation& one : running) out.push_back(one.wait());
    return out;
  };
  const std::vector<Completion> alone = answers(1);
  for (const int several : {2, 5}) {
    set_num_threads(several);
    const std::vector<Completion> together = answers(kRequests);
    for (size_t i = 0; i < kRequests; ++i) {
      EXPECT_EQ(together[i].tokens, alone[i].tokens) << i;
      EXPECT_EQ(together[i].tokens.size(), 8u);
      ASSERT_EQ(together[i].logprobs.size(), alone[i].logprobs.size());
      for (size_t t = 0; t < alone[i].logprobs.size(); ++t) {
        EXPECT_EQ(together[i].logprobs[t].logprob, alone[i].logprobs[t].logprob);
        EXPECT_EQ(together[i].logprobs[t].top.size(), 3u);
      }
    }
  }
  set_num_threads(threads);
}

TEST(EngineSampling, OneThatFailsStopsNoOther) {
  Engine engine({std::make_shared<WideModel>(), nullptr, {}},
                {.max_sequences = 16, .cache_dtype = kFloat32});
  std::vector<Generation> running;
  for (uint64_t i = 0; i < 12; ++i) {
    Request request = request_of(i);
    if (i % 4 == 3) request.tokens.push_back(kPoison);
    running.push_back(engine.submit(std::move(request)));
  }
  for (size_t i = 0; i < running.size(); ++i) {
    if (i % 4 == 3)
      EXPECT_THROW(running[i].wait(), Error) << i;
    else
      EXPECT_EQ(running[i].wait().tokens.size(), 8u) << i;
  }
}

}  // namespace
}  // namespace tensora::llm
