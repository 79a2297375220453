#include "random_weights.h"
#include "sequences.h"

namespace tensora::llm {
namespace {

using tensora::testing::contains;
using tensora::testing::error_of;
using namespace testing;

struct Kind {
  std::string name, architecture;
  bool fused = false;
  void (*change)(Metadata&) = nullptr;
};

const Kind kinds[] = {
    {"llama", "llama"},
    {"llama with a window", "llama", false,
     [](Metadata& data) { data.set("llama.attention.sliding_window", 5); }},
    {"experts", "llama", false,
     [](Metadata& data) {
       data.set("llama.expert_count", 4);
       data.set("llama.expert_used_count", 2);
     }},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"gemma", "gemma"},
    {"gemma2", "gemma2", false,
     [](Metadata& data) { data.set("gemma2.attention.sliding_window", 5); }},
    {"gemma3", "gemma3", false,
     [](Metadata& data) {
       data.set("gemma3.attention.sliding_window", 5);
       data.set("gemma3.block_count", 7);
     }},
    {"phi3", "phi3", true},
};

std::shared_ptr<const Model> model_of(const Kind& kind, RandomWeights& weights) {
  Metadata data = small_metadata(kind.architecture);
  if (kind.change) kind.change(data);
  weights.fused = kind.fused;
  return make_model(checked_config(data), weights);
}
std::shared_ptr<const Model> model_of(const Kind& kind) {
  RandomWeights weights;
  return model_of(kind, weights);
}

// Whatever way a text takes through the cache, its logits are the same.
TEST(Decoder, TheWayThroughTheCacheDoesNotMatter) {
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    const auto model = model_of(kind);
    const Tokens text = some_tokens(23, 50);
    const Tensor whole = Sequences(*model, {}).feed({text});
    Sequences one_by_one(*model, {});
    for (size_t i = 0; i < text.size(); ++i)
      EXPECT_LT(
          difference(one_by_one.feed({{text[i]}}), whole.narrow(0, static_cast<int64_t>(i), 1)),
          1e-5);
    Sequences chunked(*model, {.block_size = 16});
    int64_t at = 0;
    for (int64_t size : {5, 1, 9, 8}) {
      const Tokens part(text.begin() + at, text.begin() + at + size);
      EXPECT_LT(difference(chunked.feed({part}), whole.narrow(0, at, size)), 1e-5);
      at += size;
    }
  }
}

TEST(Decoder, SequencesOfABatchDoNotMeet) {
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    const auto model = model_of(kind);
    std::vector<Tokens> texts;
    std::vector<Tensor> alone;
    for (int64_t s = 0; s < 8; ++s) {
      texts.push_back(some_tokens(1 + s * 3, 50, s + 2));
      alone.push_back(Sequences(*model, {}).feed({texts.back()}));
    }
    Sequences together(*model, {.count = 8});
    // Some are read at once; others bring their first half with the first step, the rest later.
    std::vector<Tokens> first = texts, second(texts.size());
    for (size_t s = 1; s < texts.size(); s += 2) {
      const auto half = static_cast<std::ptrdiff_t>(texts[s].size() / 2);
      first[s].assign(texts[s].begin(), texts[s].begin() + half);
      second[s].assign(texts[s].begin() + half, texts[s].end());
    }
    std::vector<int64_t> done(texts.size());
    for (const auto& step : {first, second}) {
      const Tensor logits = together.feed(step);
      int64_t row = 0;
      for (size_t s = 0; s < step.size(); ++s) {
        const auto count = static_cast<int64_t>(step[s].size());
        if (count == 0) continue;
        EXPECT_LT(difference(logits.narrow(0, row, count), alone[s].narrow(0, done[s], count)),
                  1e-5);
        done[s] += count;
        row += count;
      }
    }
  }
}

TEST(Decoder, OnlyTheRowsThatAreAskedFor) {
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    const auto model = model_of(kind);
    const std::vector<Tokens> texts{some_tokens(9, 50), some_tokens(4, 50, 5)};
    const Tensor all = Sequences(*model, {.count = 2}).feed(texts);
    Sequences sequences(*model, {.count = 2});
    Batch batch = sequences.batch(texts);
    batch.logit_rows = tensor({12, 8, 0}, {.dtype = kInt64});
    const Tensor some = model->forward(batch, sequences.cache());
    EXPECT_LT(difference(some, all.index_select(0, batch.logit_rows)), 1e-6);
    const Tensor hidden = model->hidden(batch, sequences.cache());
    EXPECT_EQ(hidden.sizes(), (Shape{3, 64}));
    EXPECT_EQ(hidden.dtype(), kFloat32);
  }
}

TEST(Decoder, FusedMatricesAreTheSameModel) {
  const Kind kind{"phi3", "phi3", true};
  const Tokens text = some_tokens(11, 50);
  const Tensor fused = Sequences(*model_of(kind), {}).feed({text});

  /// The same numbers under the names of separate matrices.
  class Separate final : public WeightSource {
   public:
    Separate() : WeightSource({}, 0) { all_.fused = true; }
    bool contains(const std::string& name) const override {
      return name == "output.weight" || name.ends_with("ffn_gate.weight");
    }
    void expect(const std::string&, const Shape&) const override {}
    DType matrix_dtype(const std::string&) const override { return kFloat32; }
    Weight matrix(const std::string& name, const Shape& sizes) override {
      const std::string block = name.substr(0, 6);
      if (name.ends_with("attn_q.weight")) return part(block + "attn_qkv.weight", 128, 0, sizes);
      if (name.ends_with("attn_k.weight")) return part(block + "attn_qkv.weight", 128, 64, sizes);
      if (name.ends_with("attn_v.weight")) return part(block + "attn_qkv.weight", 128, 96, sizes);
      if (name.ends_with("ffn_gate.weight")) return part(block + "ffn_up.weight", 256, 0, sizes);
      if (name.ends_with("ffn_up.weight")) return part(block + "ffn_up.weight", 256, 128, sizes);
      return all_.matrix(name, sizes);
    }
    Tensor vector(const std::string& name, const Shape& sizes) override {
      return all_.vector(name, sizes);
    }

   private:
    Weight part(const std::string& name, int64_t rows, int64_t first, const Shape& sizes) {
      return all_.matrix(name, {rows, sizes[1]}).rows(first, sizes[0]);
    }
    RandomWeights all_;
  } separate;
  const auto model = make_model(checked_config(small_metadata("phi3")), separate);
  EXPECT_LT(difference(Sequences(*model, {}).feed({text}), fused), 1e-6);
}

// Caches and weights of fewer bits come close to float32.
TEST(Decoder, FewerBitsComeClose) {
  const Tokens text = some_tokens(20, 50);
  const Kind& kind = kinds[0];
  const Tensor exact = Sequences(*model_of(kind), {}).feed({text});
  struct Row {
    DType weights, cache;
    double most;
  };
  for (const Row& row :
       {Row{kFloat32, kFloat16, 2e-3}, Row{kFloat32, kBFloat16, 2e-2},
        Row{kFloat16, kFloat32, 2e-3}, Row{kBFloat16, kFloat32, 2e-2}, Row{kQ8_0, kFloat32, 5e-2},
        Row{kInt8, kFloat32, 5e-2}, Row{kFloat8E4M3, kFloat32, 0.15}, Row{kNF4, kFloat32, 0.4},
        Row{kQ4_0, kFloat32, 0.6}}) {
    SCOPED_TRACE(std::string(name(row.weights)) + " " + std::string(name(row.cache)));
    RandomWeights weights;
    weights.dtype = row.weights;
    const auto model = model_of(kind, weights);
    const double far = difference(Sequences(*model, {.cache = row.cache}).feed({text}), exact);
    EXPECT_LT(far, row.most);
    EXPECT_GT(far, 0);
  }
}

TEST(Decoder, SaysWhatDoesNotFit) {
  RandomWeights weights({}, 16);
  const auto model = model_of(kinds[0], weights);
  EXPECT_EQ(model->positions(), 16);
  Sequences sequences(*model, {.longest = 600});
  EXPECT_TRUE(contains(error_of([&] { sequences.feed({some_tokens(600, 50)}); }),
                       "a sequence of the batch may have 600"));
  Sequences other(*model, {});
  other.cache().keys.pop_back();
  EXPECT_TRUE(contains(error_of([&] { other.feed({{1}}); }), "must have 2 layers, got 1"));
}

TEST(Decoder, CountsItsBytes) {
  const auto model = model_of(kinds[0]);
  const int64_t matrices = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128) + 2 * 50 * 64;
  EXPECT_EQ(model->bytes(), 4 * (matrices + 5 * 64));
}

}  // namespace
}  // namespace tensora::llm
