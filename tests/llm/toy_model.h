#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "../helpers.h"
#include "tensora/llm/model.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm::testing {

inline constexpr int64_t kVocabulary = 48;
inline constexpr int32_t kBos = 0, kEnd = 1, kFirstLetter = 2;

/// The token that follows a text: any change of the text changes it. Rarely the end.
inline int32_t next_of(std::span<const int32_t> text) {
  uint64_t hash = 1469598103934665603u;
  for (const int32_t token : text) hash = (hash ^ static_cast<uint32_t>(token)) * 1099511628211u;
  hash ^= hash >> 29;
  if (hash % 97 == 0) return kEnd;
  return kFirstLetter + static_cast<int32_t>(hash % (kVocabulary - kFirstLetter));
}

/// What a greedy continuation of a prompt is.
inline std::vector<int32_t> continued(std::vector<int32_t> text, int64_t count, bool stops = true) {
  const size_t prompt = text.size();
  while (static_cast<int64_t>(text.size() - prompt) < count) {
    text.push_back(next_of(text));
    if (stops && text.back() == kEnd) break;
  }
  return {text.begin() + static_cast<ptrdiff_t>(prompt), text.end()};
}

/// A model whose next token depends on every token before it, which it reads from the paged cache:
/// a wrong block, slot or position gives a wrong text or an error.
class ToyModel final : public Model {
 public:
  explicit ToyModel(int64_t context = 256) : Model(config_of(context), Device()) {}

  static ModelConfig config_of(int64_t context) {
    ModelConfig config;
    config.architecture = "toy";
    config.context_length = context;
    config.layers = 1;
    config.hidden_size = 4;
    config.feed_forward = 4;
    config.heads = config.kv_heads = 1;
    config.head_dim = 2;
    config.vocab_size = kVocabulary;
    return config;
  }

  Tensor forward(const Batch& batch, PagedCache& cache) const override {
    if (const auto pause = delay.load(); pause.count() > 0) std::this_thread::sleep_for(pause);
    check(fails_at < 0 || steps++ != fails_at, "toy: this step fails");
    largest_batch = std::max<int64_t>(largest_batch, batch.lengths.size(0));
    largest_step = std::max<int64_t>(largest_step, batch.tokens.size(0));
    const int64_t size = cache.block_size();
    float* keys = cache.keys[0].data_ptr<float>();
    const auto* tokens = batch.tokens.data_ptr<int64_t>();
    const auto* positions = batch.positions.data_ptr<int64_t>();
    const auto* slots = batch.slots.data_ptr<int64_t>();
    for (int64_t t = 0; t < batch.tokens.size(0); ++t) {
      keys[slots[t] * 2] = static_cast<float>(tokens[t]);
      keys[slots[t] * 2 + 1] = static_cast<float>(positions[t]);
    }
    const auto* starts = batch.query_starts.data_ptr<int32_t>();
    const auto* lengths = batch.lengths.data_ptr<int32_t>();
    const int64_t sequences = batch.lengths.size(0), width = batch.block_table.size(1);
    int64_t singles = 0;
    while (singles < sequences && starts[singles + 1] == singles + 1) ++singles;
    check(batch.single_queries == singles, "toy: ", singles, " sequences have one query, not ",
          batch.single_queries);
    Tensor logits = zeros({batch.logit_rows.size(0), kVocabulary});
    for (int64_t row = 0; row < logits.size(0); ++row) {
      const int64_t token = batch.logit_rows.data_ptr<int64_t>()[row];
      int64_t s = 0;
      while (s + 1 < sequences && starts[s + 1] <= token) ++s;
      const int64_t position = lengths[s] - (starts[s + 1] - token);
      std::vector<int32_t> text;
      for (int64_t i = 0; i <= position; ++i) {
        const int64_t block = batch.block_table.data_ptr<int32_t>()[s * width + i / size];
        const float* key = keys + (block * size + i % size) * 2;
        check(key[1] == static_cast<float>(i), "toy: position ", i, " holds ", key[1]);
        text.push_back(static_cast<int32_t>(key[0]));
      }
      float* out = logits.data_ptr<float>() + row * kVocabulary;
      const int32_t next = next_of(text);
      for (int64_t v = 0; v < kVocabulary; ++v)
        out[v] = v == next ? 4.f : static_cast<float>((v * 7 + position) % 13) / 13.f;
    }
    return logits;
  }
  Tensor hidden(const Batch& batch, PagedCache& cache) const override {
    return forward(batch, cache);
  }
  int64_t bytes() const override { return 1; }

  std::atomic<std::chrono::microseconds> delay =
      std::chrono::microseconds(0);  // while it runs, too
  int64_t fails_at = -1;
  mutable std::atomic<int64_t> steps = 0, largest_batch = 0, largest_step = 0;
};

/// Letters: "a" is token 2. Token 0 begins a text and token 1 ends it.
class ToyTokenizer final : public Tokenizer {
 public:
  ToyTokenizer() {
    for (int64_t i = 0; i < kVocabulary; ++i)
      texts_.push_back(i < kFirstLetter
                           ? std::string()
                           : std::string(1, static_cast<char>('A' + i - kFirstLetter)));
  }
  std::vector<Token> encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<Token> out;
    if (options.add_special) out.push_back(kBos);
    for (const char letter : text) {
      const int32_t token = letter - 'A' + kFirstLetter;
      check(token >= kFirstLetter && token < kVocabulary, "toy: no token for '", letter, "'");
      out.push_back(token);
    }
    return out;
  }
  std::string decode(std::span<const Token> tokens, const DecodeOptions&) const override {
    std::string out;
    for (const Token token : tokens) out += texts_[static_cast<size_t>(token)];
    return out;
  }
  bool strips_first_space() const override { return false; }
  const std::string& bytes_of(Token token, const DecodeOptions&) const override {
    return texts_[static_cast<size_t>(token)];
  }
  int64_t vocab_size() const override { return kVocabulary; }
  std::optional<Token> find(std::string_view) const override { return {}; }
  std::optional<Token> bos() const override { return kBos; }
  std::optional<Token> eos() const override { return kEnd; }
  bool adds_bos() const override { return true; }
  bool is_control(Token token) const override { return token < kFirstLetter; }
  bool is_end_of_generation(Token token) const override { return token == kEnd; }
  std::vector<Token> end_of_generation() const override { return {kEnd}; }
  std::string description() const override { return "toy"; }

 private:
  std::vector<std::string> texts_;
};

}  // namespace tensora::llm::testing
