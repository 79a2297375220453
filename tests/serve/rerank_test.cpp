#include <gtest/gtest.h>

#include <numeric>

#include "scripted_service.h"
#include "tensora/ops.h"
#include "tensora/serve/llama_routes.h"
#include "tensora/serve/ollama_routes.h"
#include "tensora/serve/openai_routes.h"

namespace tensora::serve {
namespace {

using namespace testing;

constexpr int64_t kTokens = 2 + 256 + 2;  // controls, bytes, "yes" and "no"

/// Says "yes" the louder, the more letters of the query's line the document has. The hidden state
/// of a token is a one-hot vector.
class JudgeSession final : public llm::SequenceSession {
 public:
  JudgeSession(const llm::SessionOptions& options, llm::TokenizerPtr tokenizer, int64_t& computed,
               const std::function<void()>& on_part)
      : SequenceSession(options),
        tokenizer_(std::move(tokenizer)),
        computed_(computed),
        on_part_(on_part) {}

  Tensor forward(std::span<const Part> parts, Rows) override {
    append(parts);
    const std::string text = tokenizer_->decode(text_);
    const std::string query = line_after(text, "<Query>: ");
    const std::string document = line_after(text, "<Document>: ");
    Tensor logits = zeros({1, kTokens});
    float* values = logits.data_ptr<float>();
    for (const char letter : query)
      values[*tokenizer_->find("yes")] += document.find(letter) != document.npos ? 1.f : 0.f;
    values[*tokenizer_->find("no")] = 1;
    return logits;
  }
  Tensor hidden(std::span<const Part> parts, Rows) override {
    append(parts);
    Tensor states = zeros({std::ssize(parts[0].tokens), kTokens});
    for (int64_t i = 0; i < states.size(0); ++i)
      states.data_ptr<float>()[i * kTokens + parts[0].tokens[static_cast<size_t>(i)]] = 1;
    return states;
  }
  void truncate(int64_t, int64_t length) override { text_.resize(static_cast<size_t>(length)); }
  int64_t length(int64_t) const override { return std::ssize(text_); }
  void synchronize() override {}

 private:
  static std::string line_after(const std::string& text, const std::string& words) {
    const size_t at = text.find(words);
    return at == text.npos
               ? ""
               : text.substr(at + words.size(),
                             text.find_first_of("\n<", at + words.size()) - at - words.size());
  }
  void append(std::span<const Part> parts) {
    text_.insert(text_.end(), parts[0].tokens.begin(), parts[0].tokens.end());
    computed_ += std::ssize(parts[0].tokens);
    if (on_part_) on_part_();
  }

  llm::TokenizerPtr tokenizer_;
  int64_t& computed_;
  const std::function<void()>& on_part_;
  std::vector<int32_t> text_;
};

class JudgeBackend final : public ScriptedBackend {
 public:
  JudgeBackend() : ScriptedBackend({"yes", "no"}) {}
  std::unique_ptr<llm::SequenceSession> open_sequences(
      const llm::SessionOptions& options) override {
    return std::make_unique<JudgeSession>(options, tokenizer(), computed, on_part);
  }
  llm::ModelInfo model_info() const override {
    llm::ModelInfo info;
    info.config.vocab_size = kTokens;
    info.config.hidden_size = kTokens;
    return info;
  }
  int64_t computed = 0;  // tokens
  std::function<void()> on_part;
};

class Rerank : public ::testing::Test {
 protected:
  void start(llm::Pooling pooling) {
    ServiceOptions options;
    options.models = {{.name = "judge",
                       .load = [this] { return backend; },
                       .pooling = [pooling] { return pooling; }}};
    service = make_service(std::move(options));
    add_llama_routes(router, *service);
    add_openai_routes(router, *service);
    add_ollama_routes(router, *service);
  }
  Json post(const std::string& path, const Json& body, int status = 200) {
    const HttpResponse response = ask(router, "POST", path, body.dump())->wait();
    EXPECT_EQ(response.status, status) << body << response.body;
    return Json::parse(response.body);
  }
  static std::vector<int64_t> order_of(const Json& results) {
    std::vector<int64_t> order;
    for (const Json& result : results) order.push_back(result["index"]);
    return order;
  }

  std::shared_ptr<JudgeBackend> backend = std::make_shared<JudgeBackend>();
  std::unique_ptr<Service> service;
  Router router;
};

TEST_F(Rerank, AsksAModelThatRanks) {
  start(llm::Pooling::rank);
  const Json body = {{"query", "abc"}, {"documents", {"xyz", "cab", "ax"}}};
  const Json all = post("/v1/rerank", body);
  EXPECT_EQ(order_of(all["results"]), (std::vector<int64_t>{1, 2, 0}));
  // The sigmoid of yes - no: 3 - 1, 1 - 1, 0 - 1.
  EXPECT_NEAR(all["results"][0]["relevance_score"], 1 / (1 + std::exp(-2.0)), 1e-6);
  EXPECT_NEAR(all["results"][1]["relevance_score"], 0.5, 1e-6);
  EXPECT_NEAR(all["results"][2]["relevance_score"], 1 / (1 + std::exp(1.0)), 1e-6);
  // The second and third question share what stands before the document with the first.
  const int64_t tokens = all["usage"]["prompt_tokens"];
  EXPECT_LT(backend->computed, tokens / 2);
  EXPECT_GT(backend->computed, tokens / 3);
  // A model that ranks has no embeddings.
  EXPECT_EQ(post("/v1/embeddings", {{"input", "a"}}, 400)["error"]["code"], "not_supported");
}

// A thousand texts can take hours.
TEST_F(Rerank, StopsWhereNobodyWaits) {
  const Json texts = Json::array({"a", "b", "c", "d", "e"});
  const auto parts_before = [&](const std::string& path, const Json& body, bool is_end) {
    const auto reply = std::make_shared<RecordedReply>();
    int parts = 0;
    backend->on_part = [&] {
      if (++parts != 2) return;
      is_end ? service->end_all(ApiError(503, "over")) : reply->leave();
    };
    Exchange exchange{.request = {.body = body.dump()}, .reply = reply, .key = {}, .parameter = {}};
    std::string allowed;
    const Route* route = router.find("POST", path, exchange.parameter, allowed);
    EXPECT_THROW(route->handle(exchange), ApiError) << path;
    return parts;
  };
  start(llm::Pooling::rank);
  for (const bool is_end : {false, true})
    EXPECT_EQ(parts_before("/v1/rerank", {{"query", "a"}, {"documents", texts}}, is_end), 2);
  router = {};
  start(llm::Pooling::mean);
  for (const bool is_end : {false, true})
    EXPECT_EQ(parts_before("/v1/embeddings", {{"input", texts}}, is_end), 2);
}

TEST_F(Rerank, TakesAndReturnsTexts) {
  start(llm::Pooling::rank);
  const Json body = {{"query", "ab"},
                     {"documents", Json::array({"x", {{"text", "ab"}}})},
                     {"instruction", "Find letters"},
                     {"top_n", 1},
                     {"return_documents", true}};
  const Json result = post("/rerank", body)["results"];
  ASSERT_EQ(result.size(), 1u);
  EXPECT_EQ(result[0]["document"]["text"], "ab");
}

TEST_F(Rerank, ComparesEmbeddingsOfOtherModels) {
  start(llm::Pooling::mean);
  const Json body = {{"query", "ab"}, {"texts", {"bc", "ba", "cd"}}, {"return_text", true}};
  const Json results = post("/rerank", body);
  EXPECT_EQ(order_of(results), (std::vector<int64_t>{1, 0, 2}));
  EXPECT_NEAR(results[0]["score"], 1, 1e-6);
  EXPECT_NEAR(results[1]["score"], 0.5, 1e-6);
  EXPECT_EQ(results[1]["text"], "bc");
}

TEST_F(Rerank, ShortensEmbeddingsInEachDialect) {
  start(llm::Pooling::mean);
  const Json body = {{"input", "abc"}, {"dimensions", 100}};
  const std::vector<float> vector = post("/v1/embeddings", body)["data"][0]["embedding"];
  ASSERT_EQ(vector.size(), 100u);
  EXPECT_NEAR(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.), 1, 1e-5);
  EXPECT_EQ(post("/api/embed", body)["embeddings"][0], Json(vector));
  post("/api/embed", {{"input", "abc"}, {"dimensions", kTokens + 1}}, 400);
}

TEST_F(Rerank, NamesMistakes) {
  start(llm::Pooling::rank);
  const auto param = [&](const Json& body) {
    return post("/v1/rerank", body, 400)["error"]["param"].get<std::string>();
  };
  EXPECT_EQ(param({{"documents", Json::array({"a"})}}), "query");
  EXPECT_EQ(param({{"query", "a"}}), "documents");
  EXPECT_EQ(param({{"query", "a"}, {"documents", Json::array()}}), "documents");
  EXPECT_EQ(param({{"query", "a"}, {"documents", Json::array({"a", 1})}}), "documents[1]");
  EXPECT_EQ(param({{"query", "a"}, {"documents", Json::array({"a"})}, {"top_n", 0}}), "top_n");
  const Json too_long = {{"query", "a"}, {"documents", Json::array({std::string(5000, 'a')})}};
  EXPECT_EQ(post("/v1/rerank", too_long, 400)["error"]["code"], "context_length_exceeded");
}

}  // namespace
}  // namespace tensora::serve
