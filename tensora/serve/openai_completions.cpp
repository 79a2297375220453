#include <algorithm>
#include <numeric>

#include "tensora/base/check.h"
#include "tensora/serve/fill_middle.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/openai_routes.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

constexpr int64_t kMostAnswers = 128, kMostBest = 20, kMostLogprobs = 20;
constexpr int64_t kDefaultTokens = 16;
constexpr size_t kMostPrompts = 2048;

struct CompletionCall {
  AnswerRequest request;
  std::vector<std::string> echoes;  // what stands before the answers of each prompt
  int64_t n = 1;                    // answers that are shown; request.n may be more
  bool shows_logprobs = false, includes_usage = false;
};

// prompt: a string, a list of strings, a list of tokens or a list of such.
void read_prompts(Fields& body, const ServedModel& model, bool echoes, CompletionCall& call) {
  const llm::TokenizerPtr tokenizer = model.backend->tokenizer();
  const int64_t vocabulary = model.info.config.vocab_size;
  const auto add_text = [&](const std::string& text, const std::string& path) {
    try {
      // Who writes a whole prompt writes its control tokens, too.
      call.request.prompts.push_back(
          model.backend->tokens_of({.prompt = text, .parse_special = true}));
    } catch (const Error& error) {
      throw ApiError(400, concat(path, ": ", error.what()), path);
    }
    call.echoes.push_back(echoes ? text : std::string());
  };
  const auto add_tokens = [&](const Json& list, const std::string& path) {
    call.request.prompts.push_back(read_tokens(list, path, vocabulary));
    call.echoes.push_back(echoes && tokenizer ? tokenizer->decode(call.request.prompts.back())
                                              : std::string());
  };
  const Json* prompt = body.find("prompt");
  if (!prompt) return add_text("", "prompt");
  if (prompt->is_string()) return add_text(prompt->get<std::string>(), "prompt");
  if (!prompt->is_array())
    body.fail("prompt", concat("expected a string, a list of strings or a list of tokens, got ",
                               kind_of(*prompt)));
  if (prompt->empty()) body.fail("prompt", "expected at least one prompt");
  if (prompt->front().is_number()) return add_tokens(*prompt, "prompt");
  if (prompt->size() > kMostPrompts)
    body.fail("prompt",
              concat("expected at most ", kMostPrompts, " prompts, got ", prompt->size()));
  for (size_t i = 0; i < prompt->size(); ++i) {
    const Json& one = (*prompt)[i];
    const std::string path = concat("prompt[", i, "]");
    if (one.is_string())
      add_text(one.get<std::string>(), path);
    else if (one.is_array())
      add_tokens(one, path);
    else
      body.fail(path, concat("expected a string or a list of tokens, got ", kind_of(one)));
  }
}

// The answer is to stand between the prompt and a suffix.
void put_before(Fields& body, const ServedModel& model, const std::string& suffix,
                CompletionCall& call) {
  const Json* prompt = body.find("prompt");
  if (!prompt || !prompt->is_string()) body.fail("suffix", "needs a prompt that is one string");
  const llm::TokenizerPtr tokenizer = model.backend->tokenizer();
  auto tokens =
      tokenizer ? fill_prompt(*tokenizer, {.prefix = prompt->get<std::string>(), .suffix = suffix})
                : std::nullopt;
  if (!tokens) body.fail("suffix", "the model has no tokens for filling in the middle of a text");
  call.request.prompts = {std::move(*tokens)};
}

CompletionCall read_completion(Fields& body, Service& service, const ServedModel& model) {
  CompletionCall call;
  AnswerRequest& request = call.request;
  llm::Request& wanted = request.request;
  wanted.sampling = service.sampling();
  const bool echoes = body.boolean("echo").value_or(false);
  read_prompts(body, model, echoes, call);
  read_sampling(body, wanted);
  wanted.max_tokens =
      read_token_count(body, "max_tokens", 0)
          .value_or(read_token_count(body, "max_completion_tokens", 0).value_or(kDefaultTokens));
  call.n = request.n = body.integer("n", 1, kMostAnswers).value_or(1);
  request.wants_parts = body.boolean("stream").value_or(false);
  if (const auto best = body.integer("best_of", 1, kMostBest)) {
    if (*best < call.n)
      body.fail("best_of", concat("expected n (", call.n, ") or more, got ", *best));
    if (*best > call.n && request.wants_parts)
      body.fail("best_of", "cannot be combined with stream");
    request.n = *best;
  }
  if (const auto logprobs = body.integer("logprobs", 0, kMostLogprobs)) {
    if (echoes) body.fail("logprobs", "cannot be combined with echo");
    call.shows_logprobs = true;
    wanted.sampling.top_logprobs = *logprobs;
  }
  wanted.sampling.logprobs = call.shows_logprobs || request.n > call.n;
  if (const auto suffix = body.text("suffix"); suffix && !suffix->empty())
    put_before(body, model, *suffix, call);
  wanted.tenant = body.text("cache_salt").value_or("");
  if (auto options = body.object("stream_options")) {
    if (!request.wants_parts) body.fail("stream_options", "needs stream to be true");
    call.includes_usage = options->boolean("include_usage").value_or(false);
  }
  body.accept({"user"});
  return call;
}

// The length of a text in characters.
int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

// Appends {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; the first token begins at
// character `offset`, which becomes where the next one does.
void append_old_logprobs(std::string& out, const llm::Tokenizer& tokenizer,
                         std::span<const llm::Sampled> tokens, int64_t& offset) {
  std::string names, logprobs, tops, offsets;
  const auto text_of = [&](int32_t token) {
    return json_string(tokenizer.bytes_of(token, {.special = true}));
  };
  const auto value_of = [](float logprob) {
    return static_cast<double>(std::max(logprob, -9999.f));
  };
  for (const llm::Sampled& sampled : tokens) {
    if (!is_shown(tokenizer, sampled.token)) continue;
    const char* comma = names.empty() ? "" : ",";
    names += comma + text_of(sampled.token);
    logprobs += comma;
    append_json(logprobs, value_of(sampled.logprob));
    offsets += comma;
    append_json(offsets, offset);
    offset += characters(tokenizer.bytes_of(sampled.token));
    tops += concat(comma, "{");
    for (size_t i = 0; i < sampled.top.size(); ++i) {
      tops += concat(i > 0 ? "," : "", text_of(sampled.top[i].token), ":");
      append_json(tops, value_of(sampled.top[i].logprob));
    }
    tops += '}';
  }
  out += concat("{\"tokens\":[", names, "],\"token_logprobs\":[", logprobs, "],\"top_logprobs\":[",
                tops, "],\"text_offset\":[", offsets, "]}");
}

/// The answer in one piece.
class CompletionWhole final : public AnswerSink {
 public:
  CompletionWhole(ReplyPtr reply, OpenAiHead head, const CompletionCall& call)
      : AnswerSink(std::move(reply)),
        head_(std::move(head)),
        echoes_(call.echoes),
        n_(static_cast<size_t>(call.n)),
        made_(static_cast<size_t>(call.request.n)),
        shows_logprobs_(call.shows_logprobs) {}

  void on_event(const AnswerEvent&) override {}
  void on_flush() override {}
  void on_error(const ApiError& error) override { reply().send(openai_error(error)); }

  void on_end(const std::vector<Answer>& answers) override {
    std::string out = head_.text() + ",\"choices\":[";
    size_t index = 0;
    for (size_t prompt = 0; prompt < echoes_.size(); ++prompt)
      for (const size_t i : best(answers, prompt * made_))
        append_choice(out, index++, echoes_[prompt], answers[i]);
    out += concat("],\"usage\":", usage_json(answers, static_cast<int64_t>(made_)),
                  ",\"timings\":", timings_json(answers[0]), "}");
    reply().send({.headers = head_.headers, .body = std::move(out)});
  }

 private:
  // The answers of a prompt that are shown: those whose tokens are the most probable on average.
  std::vector<size_t> best(const std::vector<Answer>& answers, size_t first) const {
    std::vector<size_t> order(made_);
    std::iota(order.begin(), order.end(), first);
    if (made_ > n_) {
      const auto mean = [&](size_t i) {
        const auto& tokens = answers[i].completion.logprobs;
        double sum = 0;
        for (const llm::Sampled& one : tokens) sum += one.logprob;
        return tokens.empty() ? 0 : sum / static_cast<double>(tokens.size());
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return mean(a) > mean(b); });
    }
    order.resize(n_);
    return order;
  }

  void append_choice(std::string& out, size_t index, const std::string& echo,
                     const Answer& answer) const {
    out += concat(index > 0 ? "," : "", "{\"index\":", index, ",\"text\":");
    append_json(out, echo + answer.text);
    out += ",\"logprobs\":";
    if (shows_logprobs_) {
      int64_t offset = characters(echo);
      append_old_logprobs(out, *head_.served->backend->tokenizer(), answer.text_logprobs, offset);
    } else {
      out += "null";
    }
    out += concat(",\"finish_reason\":\"", finish_reason(answer.end),
                  "\",\"seed\":", answer.completion.seed, "}");
  }

  OpenAiHead head_;
  std::vector<std::string> echoes_;
  size_t n_, made_;
  bool shows_logprobs_;
};

/// The answer as server-sent events.
class CompletionStream final : public OpenAiStream {
 public:
  CompletionStream(ReplyPtr reply, const OpenAiHead& head, const CompletionCall& call)
      : OpenAiStream(std::move(reply), head, call.request, call.includes_usage),
        echoes_(call.echoes),
        n_(call.n),
        offsets_(call.echoes.size() * static_cast<size_t>(call.n)) {
    for (size_t i = 0; i < offsets_.size(); ++i) offsets_[i] = characters(echo_of(i));
  }

  void on_event(const AnswerEvent& event) override {
    using Kind = AnswerEvent::Kind;
    const auto index = static_cast<size_t>(event.answer);
    if (event.kind == Kind::begin) {
      if (echo_of(index).empty()) return;
      add(event, echo_of(index), {});
    } else if (event.kind == Kind::text) {
      if (event.text.empty() && !(has_logprobs() && has_shown(event.tokens))) return;
      add(event, event.text, event.tokens);
    } else if (event.kind == Kind::end) {
      open_choice(event.answer);
      out_ += concat(",\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"",
                     finish_reason(event.end), "\",\"seed\":", event.whole->completion.seed);
      close_choice();
    }
  }

 private:
  const std::string& echo_of(size_t answer) const {
    return echoes_[answer / static_cast<size_t>(n_)];
  }
  void add(const AnswerEvent& event, std::string_view text, std::span<const llm::Sampled> tokens) {
    open_choice(event.answer);
    out_ += ",\"text\":";
    append_json(out_, text);
    out_ += ",\"logprobs\":";
    if (has_logprobs() && !tokens.empty())
      append_old_logprobs(out_, tokenizer(), tokens, offsets_[static_cast<size_t>(event.answer)]);
    else
      out_ += "null";
    out_ += ",\"finish_reason\":null";
    close_choice();
  }

  std::vector<std::string> echoes_;
  int64_t n_;
  std::vector<int64_t> offsets_;  // of the next token of each answer, in characters
};

void answer_completion(Service& service, Exchange& exchange) {
  const Json json = parse_body(exchange.request.body);
  Fields body(json);
  const std::string name = body.text("model").value_or("");
  const ServedModelPtr model = service.model(name);
  CompletionCall call = read_completion(body, service, *model);
  AnswerRequest& request = call.request;
  request.model = name;
  request.key = exchange.key;
  request.id = exchange.request.id;
  OpenAiHead head("cmpl-", "text_completion", shown_model(name, *model), model);
  head.headers = ignored_header(body.unread());
  std::shared_ptr<AnswerSink> sink;
  if (request.wants_parts)
    sink = std::make_shared<CompletionStream>(exchange.reply, head, call);
  else
    sink = std::make_shared<CompletionWhole>(exchange.reply, std::move(head), call);
  service.answer(std::move(request), std::move(sink));
}

}  // namespace

void add_openai_completion_routes(Router& router, Service& service) {
  router.add({.method = "POST",
              .path = "/v1/completions",
              .handle = [&service](Exchange& exchange) { answer_completion(service, exchange); }});
}

}  // namespace tensora::serve
