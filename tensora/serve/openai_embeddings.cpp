#include <bit>
#include <cstring>

#include "tensora/base/check.h"
#include "tensora/serve/embedder.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/openai_routes.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

constexpr size_t kMostTexts = 2048;

std::vector<std::vector<int32_t>> read_input(Fields& body, const ServedModel& model) {
  const llm::TokenizerPtr tokenizer = model.backend->tokenizer();
  const int64_t vocabulary = model.info.config.vocab_size;
  if (!tokenizer) throw ApiError(400, "the model has no tokenizer", "model");
  const Json& input = body.at("input");
  if (input.is_string()) return {tokenizer->encode(input.get<std::string>())};
  if (!input.is_array())
    body.fail("input", concat("expected a string, a list of strings or a list of tokens, got ",
                              kind_of(input)));
  if (input.empty()) body.fail("input", "expected at least one text");
  if (input.front().is_number()) return {read_tokens(input, "input", vocabulary)};
  if (input.size() > kMostTexts)
    body.fail("input", concat("expected at most ", kMostTexts, " texts, got ", input.size()));
  std::vector<std::vector<int32_t>> texts;
  for (size_t i = 0; i < input.size(); ++i) {
    const std::string path = concat("input[", i, "]");
    if (input[i].is_string())
      texts.push_back(tokenizer->encode(input[i].get<std::string>()));
    else if (input[i].is_array())
      texts.push_back(read_tokens(input[i], path, vocabulary));
    else
      body.fail(path, concat("expected a string or a list of tokens, got ", kind_of(input[i])));
  }
  return texts;
}

// Little-endian floats in base64.
std::string base64_of(const std::vector<float>& vector) {
  static_assert(std::endian::native == std::endian::little);
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes(vector.size() * sizeof(float));
  if (!bytes.empty()) std::memcpy(bytes.data(), vector.data(), bytes.size());
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? bytes[i + j] : 0u);
    for (size_t j = 0; j < 4; ++j) out += j <= count ? kLetters[bits >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

void answer_embeddings(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  const std::string name = body.text("model").value_or("");
  const ServedModelPtr model = service.model(name);
  const auto texts = read_input(body, *model);
  const bool is_base64 =
      body.choice("encoding_format", {"float", "base64"}).value_or("float") == "base64";
  const int64_t width = model->info.config.hidden_size;
  const int64_t dimensions = body.integer("dimensions", 1, width).value_or(width);
  body.accept({"user"});
  std::vector<std::vector<float>> vectors = service.embed(*model, texts, *exchange.reply);
  std::string out = R"({"object":"list","data":[)";
  int64_t tokens = 0;
  for (size_t i = 0; i < vectors.size(); ++i) {
    tokens += static_cast<int64_t>(texts[i].size());
    shorten(vectors[i], static_cast<size_t>(dimensions));
    out += concat(i > 0 ? "," : "", R"({"object":"embedding","index":)", i, ",\"embedding\":");
    if (is_base64) {
      out += concat("\"", base64_of(vectors[i]), "\"}");
      continue;
    }
    out += '[';
    for (size_t j = 0; j < vectors[i].size(); ++j) {
      if (j > 0) out += ',';
      append_json(out, vectors[i][j]);
    }
    out += "]}";
  }
  out += concat("],\"model\":", json_string(shown_model(name, *model)),
                ",\"usage\":{\"prompt_tokens\":", tokens, ",\"total_tokens\":", tokens, "}}");
  exchange.reply->send({.headers = ignored_header(body.unread()), .body = std::move(out)});
}

}  // namespace

void add_openai_embedding_routes(Router& router, Service& service) {
  for (const char* path : {"/v1/embeddings", "/embeddings"})
    router.add({.method = "POST", .path = path, .handle = [&service](Exchange& exchange) {
                  answer_embeddings(service, exchange);
                }});
}

}  // namespace tensora::serve
