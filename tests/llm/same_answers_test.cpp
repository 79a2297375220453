// On the CPU a request's answer has the same tokens and the same logprobs, bit by bit, alone,
// beside others, with draft tokens, with a cached prefix and on any number of threads.
#include "../helpers.h"
#include "../real_data.h"
#include "random_weights.h"
#include "tensora/base/settings.h"
#include "tensora/base/thread_pool.h"
#include "tensora/llm/engine.h"
#include "tensora/llm/model_file.h"

namespace tensora::llm {
namespace {

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  bool operator==(const Answer&) const = default;
};

class SameAnswers : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(threads_); }

  static std::vector<Request> requests(int64_t vocabulary, int64_t count) {
    std::vector<Request> out;
    uint64_t state = 7;
    const auto next = [&](int64_t limit) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<int64_t>(state >> 33) % limit;
    };
    for (int64_t i = 0; i < count; ++i) {
      Request request{.max_tokens = 12 + next(12)};
      // Every third prompt begins like the one before it; phrases repeat, so that drafts are found.
      if (i % 3 == 2) request.tokens = out.back().tokens;
      for (int64_t k = 0, size = 2 + next(40); k < size; ++k) {
        const auto at = static_cast<int64_t>(request.tokens.size());
        request.tokens.push_back(k > 6 && next(3) > 0
                                     ? request.tokens[static_cast<size_t>(at - 5)]
                                     : 2 + static_cast<int32_t>(next(vocabulary - 2)));
      }
      request.sampling = {.temperature = i % 2 ? 0.9 : 0.0,
                          .seed = static_cast<uint64_t>(100 + i),
                          .logprobs = true};
      out.push_back(std::move(request));
    }
    return out;
  }

  static std::vector<Answer> answers(const EngineParts& parts, const std::vector<Request>& requests,
                                     const EngineOptions& options, bool at_once) {
    Engine engine(parts, options);
    std::vector<Generation> running;
    std::vector<Answer> out;
    for (const Request& request : requests) {
      running.push_back(engine.submit(request));
      if (!at_once) running.back().wait();
    }
    for (Generation& generation : running) {
      const Completion done = generation.wait();
      out.push_back({done.tokens, {}});
      for (const Sampled& sampled : done.logprobs) out.back().logprobs.push_back(sampled.logprob);
    }
    return out;
  }

  static void check(const EngineParts& parts, int64_t count, const std::string& model) {
    const std::vector<Request> all = requests(parts.model->config().vocab_size, count);
    const std::vector<Answer> alone =
        answers(parts, all, {.max_sequences = 1, .share_prefixes = false}, false);
    const struct {
      const char* what;
      EngineOptions options;
      bool at_once;
    } ways[] = {
        {"all at once", {.max_sequences = 30, .share_prefixes = false}, true},
        {"three at once", {.max_sequences = 3}, true},
        {"prompts in parts", {.max_sequences = 5, .max_batch_tokens = 7}, true},
        {"cached prefixes", {.max_sequences = 1, .block_size = 8}, false},
        {"drafts alone", {.max_sequences = 1, .speculation = {.draft_tokens = 4}}, false},
        {"drafts at once", {.max_sequences = 30, .speculation = {.draft_tokens = 4}}, true},
    };
    for (const auto& [what, options, at_once] : ways)
      for (const int threads : {1, 2, 4}) {
        if (threads == 4 && !at_once) continue;
        set_num_threads(threads);
        const std::vector<Answer> found = answers(parts, all, options, at_once);
        for (size_t i = 0; i < all.size(); ++i)
          EXPECT_EQ(found[i], alone[i])
              << model << ", " << what << ", request " << i << ", " << threads << " threads";
      }
  }

  int threads_ = get_num_threads();
};

EngineParts random_parts(const std::string& architecture, DType dtype, int64_t experts = 0) {
  Metadata metadata = testing::small_metadata(architecture);
  const std::string prefix = architecture + ".";
  metadata.set(prefix + "context_length", 256);
  metadata.set(prefix + "embedding_length", 256);
  metadata.set(prefix + "feed_forward_length", 512);
  metadata.set(prefix + "block_count", 3);
  metadata.set(prefix + "vocab_size", 203);
  if (experts > 0) {
    metadata.set(prefix + "expert_count", experts);
    metadata.set(prefix + "expert_used_count", 2);
  }
  testing::RandomWeights weights;
  weights.dtype = dtype;
  return {.model = testing::make_model(testing::checked_config(metadata), weights)};
}

TEST_F(SameAnswers, RandomModels) {
  // Without AVX2 quantized weights are unpacked number by number: a sample must do there.
  if (setting("TENSORA_ISA") == "baseline") return check(random_parts("llama", kQ8_0), 3, "q8_0");
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16, kQ8_0, kQ4_0, kQ4_K, kQ6_K, kMXFP4})
    check(random_parts("llama", dtype), dtype == kQ8_0 ? 30 : 9, std::string(name(dtype)));
}

TEST_F(SameAnswers, OtherArchitectures) {
  if (setting("TENSORA_ISA") == "baseline") GTEST_SKIP() << "it would take minutes";
  for (const char* architecture : {"qwen3", "gemma2"})
    check(random_parts(architecture, kQ8_0), 9, architecture);
  for (const DType dtype : {kFloat32, kQ4_K}) check(random_parts("llama", dtype, 5), 9, "experts");
}

TEST_F(SameAnswers, Stories) {
  const std::string path = tensora::testing::real_data("stories260K.gguf");
  if (path.empty()) GTEST_SKIP() << "../shared/data/stories260K.gguf is not there";
  check(load_parts(ModelFile::open(path)), 30, "stories260K");
}

}  // namespace
}  // namespace tensora::llm
