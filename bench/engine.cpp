// The engine's own work per token: a model that computes nothing, in overlapped steps as on a GPU.
// What it takes per step should be less than a step takes on the device, or the device waits.
//
// usage: tensora-bench-engine [SEQUENCES [TOKENS]]
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tensora/llm/engine.h"
#include "tensora/llm/tokenizer/tokenizer.h"
#include "tensora/ops.h"

namespace {

using namespace tensora;
using namespace tensora::llm;

// So few that choosing one of them is no work.
constexpr int64_t kVocabulary = 48;
constexpr int64_t kContext = 1024, kPrompt = 16, kMostRows = 4096;

class IdleModel final : public Model {
 public:
  IdleModel() : Model(config_of(), Device()) {}
  Tensor forward(const Batch& batch, PagedCache& /*cache*/) const override {
    return narrow(logits_, 0, 0, batch.logit_rows.size(0));
  }
  Tensor hidden(const Batch& batch, PagedCache& cache) const override {
    return forward(batch, cache);
  }
  int64_t bytes() const override { return 1; }

 private:
  static ModelConfig config_of() {
    ModelConfig config;
    config.architecture = "idle";
    config.context_length = kContext;
    config.layers = config.heads = config.kv_heads = 1;
    config.hidden_size = config.feed_forward = 4;
    config.head_dim = 2;
    config.vocab_size = kVocabulary;
    return config;
  }
  Tensor logits_ = zeros({kMostRows, kVocabulary});
};

// Words of one to six letters.
class Words final : public Tokenizer {
 public:
  Words() {
    for (int64_t i = 0; i < kVocabulary; ++i)
      words_.push_back(
          i < 2 ? std::string()
                : std::string(static_cast<size_t>(1 + i % 6), static_cast<char>('a' + i % 26)));
  }
  std::vector<Token> encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::string decode(std::span<const Token>, const DecodeOptions&) const override { return {}; }
  bool strips_first_space() const override { return false; }
  const std::string& bytes_of(Token token, const DecodeOptions&) const override {
    return words_[static_cast<size_t>(token)];
  }
  int64_t vocab_size() const override { return kVocabulary; }
  std::optional<Token> find(std::string_view) const override { return {}; }
  std::optional<Token> bos() const override { return 0; }
  std::optional<Token> eos() const override { return 1; }
  bool adds_bos() const override { return false; }
  bool is_control(Token token) const override { return token < 2; }
  bool is_end_of_generation(Token token) const override { return token == 1; }
  std::vector<Token> end_of_generation() const override { return {1}; }
  std::string description() const override { return "words"; }

 private:
  std::vector<std::string> words_;
};

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Of this thread, which submits, and of the engine's.
double own_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }
double engine_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_seconds(); }

void run(Engine& engine, int64_t sequences, int64_t tokens) {
  std::vector<Generation> running;
  const double engine_before = engine_seconds(), own_before = own_seconds();
  for (int64_t i = 0; i < sequences; ++i) {
    std::vector<int32_t> prompt;
    for (int64_t j = 0; j < kPrompt; ++j)
      prompt.push_back(static_cast<int32_t>(2 + (i * 31 + j * j * 7) % (kVocabulary - 2)));
    running.push_back(engine.submit({.tokens = std::move(prompt),
                                     .sampling = {.temperature = 0},
                                     .max_tokens = tokens,
                                     .ignore_end = true}));
  }
  const double submitting = own_seconds() - own_before;
  int64_t count = 0;
  for (Generation& one : running) count += std::ssize(one.wait().tokens);
  std::printf("%ld answers of %ld tokens: %.2f us per request to submit, %.3f us per token\n",
              static_cast<long>(sequences), static_cast<long>(tokens),
              submitting / static_cast<double>(sequences) * 1e6,
              (engine_seconds() - engine_before) / static_cast<double>(count) * 1e6);
}

}  // namespace

int main(int count, char** words) {
  const int64_t sequences = count > 1 ? std::atoll(words[1]) : 1000;
  const int64_t tokens = count > 2 ? std::atoll(words[2]) : 128;
  Engine engine({std::make_shared<IdleModel>(), std::make_shared<Words>()},
                {.context = kContext,
                 .max_sequences = sequences,
                 .max_batch_tokens = 512 + sequences,
                 .cache_tokens = sequences * 512 + kContext,
                 .cache_dtype = kFloat32,
                 .overlap = true});
  for (int round = 0; round < 3; ++round) run(engine, sequences, tokens);
}
