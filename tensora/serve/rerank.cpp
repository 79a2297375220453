#include <algorithm>
#include <numeric>

#include "tensora/base/check.h"
#include "tensora/serve/dialect.h"
#include "tensora/serve/embedder.h"
#include "tensora/serve/llama_routes.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostDocuments = 2048;
// What Qwen3-Reranker was trained with.
constexpr const char* kInstruction =
    "Given a web search query, retrieve relevant passages that answer the query";
constexpr const char* kJudge =
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".";

struct Ranking {
  std::vector<double> scores;  // of the documents, in their order
  int64_t tokens = 0;          // that were read
};

// A document is a string or {"text": ...}.
std::vector<std::string> read_documents(Fields& body, const std::string& name) {
  const Json* list = body.list(name, kMostDocuments);
  if (!list) body.fail(name, "is required");
  if (list->empty()) body.fail(name, "expected at least one document");
  std::vector<std::string> documents;
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& document = (*list)[i];
    if (document.is_string()) {
      documents.push_back(document.get<std::string>());
      continue;
    }
    const std::string path = concat(body.path_of(name), "[", i, "]");
    if (!document.is_object())
      throw ApiError(
          400, concat(path, ": expected a string or an object with text, got ", kind_of(document)),
          path);
    documents.push_back(body.below(document, path).required_text("text"));
  }
  return documents;
}

// Asks the model about each document: "yes" or "no". The chat template writes the question, so that
// the names of control tokens in a document stay text.
Ranking judged(Service& service, const ServedModel& model, const std::string& query,
               const std::vector<std::string>& documents, const std::string& instruction,
               const Reply& client) {
  const llm::TokenizerPtr tokenizer = model.backend->tokenizer();
  const auto yes = tokenizer->find("yes"), no = tokenizer->find("no");
  if (!yes || !no || !model.backend->chat_template())
    throw ApiError(400, "ranking needs a model with a chat template and the tokens yes and no",
                   "model", "not_supported");
  Ranking ranking;
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& document : documents) {
    llm::Request request;
    request.messages = {{.role = "system", .content = kJudge},
                        {.role = "user",
                         .content = concat("<Instruct>: ", instruction, "\n<Query>: ", query,
                                           "\n<Document>: ", document)}};
    request.chat.variables = R"({"enable_thinking": false})";
    prompts.push_back(model.backend->tokens_of(request));
    ranking.tokens += std::ssize(prompts.back());
  }
  ranking.scores = service.judge(model, prompts, *yes, *no, client);
  return ranking;
}

// The cosines of the angles between the embeddings, which have length 1.
Ranking compared(Service& service, const ServedModel& model, const std::string& query,
                 const std::vector<std::string>& documents, const Reply& client) {
  const llm::TokenizerPtr tokenizer = model.backend->tokenizer();
  std::vector<std::vector<int32_t>> texts = {tokenizer->encode(query)};
  for (const std::string& document : documents) texts.push_back(tokenizer->encode(document));
  Ranking ranking;
  for (const auto& text : texts) ranking.tokens += std::ssize(text);
  const auto vectors = service.embed(model, texts, client);
  for (size_t i = 1; i < vectors.size(); ++i)
    ranking.scores.push_back(
        std::inner_product(vectors[0].begin(), vectors[0].end(), vectors[i].begin(), 0.0));
  return ranking;
}

void rerank(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  const std::string name = body.text("model").value_or("");
  const ServedModelPtr model = service.model(name);
  if (!model->backend->tokenizer()) throw ApiError(400, "the model has no tokenizer", "model");
  const std::string query = body.required_text("query");
  // The server of text-embeddings-inference calls them texts, and answers with a list.
  const bool is_list = body.has("texts") && !body.has("documents");
  const std::vector<std::string> documents = read_documents(body, is_list ? "texts" : "documents");
  const auto count = std::ssize(documents);
  const int64_t top = std::min(count, body.integer("top_n", 1).value_or(count));
  const bool has_texts = body.boolean(is_list ? "return_text" : "return_documents").value_or(false);
  const bool judges = model->embedder && model->embedder->pooling() == llm::Pooling::rank;
  Ranking ranking;
  if (judges) {
    const std::string instruction = body.text("instruction").value_or(kInstruction);
    ranking = judged(service, *model, query, documents, instruction, *exchange.reply);
  } else {
    ranking = compared(service, *model, query, documents, *exchange.reply);
  }
  std::vector<size_t> order(documents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(
      order, [&](size_t a, size_t b) { return ranking.scores[a] > ranking.scores[b]; });
  Json results = Json::array();
  for (const size_t i : std::span(order).first(static_cast<size_t>(top))) {
    Json result = {{"index", i}, {is_list ? "score" : "relevance_score", ranking.scores[i]}};
    if (has_texts && is_list) result["text"] = documents[i];
    if (has_texts && !is_list) result["document"] = {{"text", documents[i]}};
    results.push_back(std::move(result));
  }
  const Json whole = {
      {"object", "list"},
      {"model", shown_model(name, *model)},
      {"results", results},
      {"usage", {{"prompt_tokens", ranking.tokens}, {"total_tokens", ranking.tokens}}}};
  exchange.reply->send(
      {.headers = ignored_header(body.unread()), .body = dumped(is_list ? results : whole)});
}

}  // namespace

void add_rerank_routes(Router& router, Service& service) {
  for (const char* path : {"/v1/rerank", "/rerank", "/v1/reranking", "/reranking"})
    router.add({.method = "POST", .path = path, .handle = [&service](Exchange& exchange) {
                  rerank(service, exchange);
                }});
}

}  // namespace tensora::serve
