#include <algorithm>
#include <numeric>
#include <optional>

#include "tensora/base/check.h"
#include "tensora/serve/fill_middle.h"
#include "tensora/serve/json_text.h"
#include "tensora/serve/openai_fields.h"
#include "tensora/serve/openai_routes.h"
#include "tensora/serve/openai_shared.h"
#include "tensora/serve/sampling_fields.h"

namespace tensora::serve {
namespace {

constexpr int64_t kMostAnswers = 128, kMostBest = 20, kMostLogprobs = 20;
constexpr int64_t kDefaultTokens = 16;
constexpr size_t kMostPrompts = 2048;

/// What stands before the answers of a prompt.
struct Echo {
  std::string text = {};
  std::optional<int32_t> first = {};  // token of the prompt, where its logprobs are shown
};

struct CompletionCall {
  AnswerRequest request;
  std::vector<Echo> echoes;  // one per prompt
  int64_t n = 1;             // answers that are shown; request.n may be more
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
    call.echoes.push_back({.text = echoes ? text : std::string()});
  };
  const auto add_tokens = [&](const Json& list, const std::string& path) {
    call.request.prompts.push_back(read_tokens(list, path, vocabulary));
    call.echoes.push_back({.text = echoes && tokenizer
                                       ? tokenizer->decode(call.request.prompts.back())
                                       : std::string()});
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
    call.shows_logprobs = true;
    wanted.sampling.top_logprobs = *logprobs;
  }
  wanted.sampling.logprobs = call.shows_logprobs || request.n > call.n;
  wanted.prompt_logprobs = echoes && call.shows_logprobs;
  if (const auto suffix = body.text("suffix"); suffix && !suffix->empty()) {
    if (wanted.prompt_logprobs) body.fail("suffix", "cannot be combined with echo and logprobs");
    put_before(body, model, *suffix, call);
  }
  if (wanted.prompt_logprobs)
    for (size_t i = 0; i < request.prompts.size(); ++i)
      if (!request.prompts[i].empty()) call.echoes[i].first = request.prompts[i].front();
  wanted.tenant = body.text("cache_salt").value_or("");
  if (auto options = body.object("stream_options")) {
    if (!request.wants_parts) body.fail("stream_options", "needs stream to be true");
    call.includes_usage = options->boolean("include_usage").value_or(false);
    options->accept({"include_obfuscation"});
  }
  read_response_format(body, wanted.sampling);
  body.accept({"user"});
  return call;
}

// The length of a text in characters.
int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; });
}

/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; offsets count characters.
class OldLogprobs {
 public:
  OldLogprobs(const llm::Tokenizer& tokenizer, int64_t& offset)
      : tokenizer_(tokenizer), offset_(offset) {}

  /// All tokens of the prompt that is shown as `echo`. Nothing comes before the first, so it has no
  /// logprob.
  void add_prompt(const Echo& echo, std::span<const llm::Sampled> rest) {
    std::string_view text = echo.text;
    add_token(*echo.first, text);
    logprobs_ += "null";
    tops_ += "null";
    for (const llm::Sampled& scored : rest) {
      add_token(scored.token, text);
      add_scores(scored);
    }
    offset_ += characters(text);
  }
  /// Tokens of the answer.
  void add(std::span<const llm::Sampled> tokens) {
    for (const llm::Sampled& sampled : tokens) {
      if (!is_shown(tokenizer_, sampled.token)) continue;
      std::string_view text = tokenizer_.bytes_of(sampled.token);
      add_token(sampled.token, text);
      add_scores(sampled);
    }
  }
  std::string text() const {
    return concat("{\"tokens\":[", names_, "],\"token_logprobs\":[", logprobs_,
                  "],\"top_logprobs\":[", tops_, "],\"text_offset\":[", offsets_, "]}");
  }

 private:
  std::string name_of(int32_t token) const {
    return json_string(tokenizer_.bytes_of(token, {.special = true}));
  }
  static double value_of(float logprob) { return static_cast<double>(std::max(logprob, -9999.f)); }

  // The token stands at the beginning of `text`, which is shortened by it. Control tokens are not
  // in the text unless the client wrote them, nor is a blank that the tokenizer put before its
  // first word.
  void add_token(int32_t token, std::string_view& text) {
    if (!names_.empty())
      for (std::string* list : {&names_, &logprobs_, &tops_, &offsets_}) *list += ',';
    names_ += name_of(token);
    append_json(offsets_, offset_);
    std::string_view bytes = tokenizer_.bytes_of(token);
    if (const std::string_view name = tokenizer_.bytes_of(token, {.special = true});
        bytes.empty() && text.starts_with(name))
      bytes = name;
    if (bytes.starts_with(' ') && !text.starts_with(' ')) bytes.remove_prefix(1);
    const std::string_view taken = text.substr(0, std::min(bytes.size(), text.size()));
    offset_ += characters(taken);
    text.remove_prefix(taken.size());
  }
  void add_scores(const llm::Sampled& sampled) {
    append_json(logprobs_, value_of(sampled.logprob));
    tops_ += '{';
    for (size_t i = 0; i < sampled.top.size(); ++i) {
      tops_ += concat(i > 0 ? "," : "", name_of(sampled.top[i].token), ":");
      append_json(tops_, value_of(sampled.top[i].logprob));
    }
    tops_ += '}';
  }

  const llm::Tokenizer& tokenizer_;
  int64_t& offset_;  // of the next token
  std::string names_, logprobs_, tops_, offsets_;
};

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

  void append_choice(std::string& out, size_t index, const Echo& echo, const Answer& answer) const {
    out += concat(index > 0 ? "," : "", "{\"index\":", index, ",\"text\":");
    append_json(out, echo.text + answer.text);
    out += ",\"logprobs\":";
    if (shows_logprobs_) {
      int64_t offset = 0;
      OldLogprobs logprobs(*head_.served->backend->tokenizer(), offset);
      if (echo.first) logprobs.add_prompt(echo, answer.prompt_logprobs);
      logprobs.add(answer.text_logprobs);
      out += logprobs.text();
    } else {
      out += "null";
    }
    out += concat(",\"finish_reason\":\"", finish_reason(answer.end),
                  "\",\"seed\":", answer.completion.seed, "}");
  }

  OpenAiHead head_;
  std::vector<Echo> echoes_;
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
        offsets_(call.echoes.size() * static_cast<size_t>(call.n)) {}

  void on_event(const AnswerEvent& event) override {
    using Kind = AnswerEvent::Kind;
    const auto index = static_cast<size_t>(event.answer);
    if (event.kind == Kind::begin) {
      const Echo& echo = echo_of(index);
      if (!echo.text.empty() || echo.first) add(event, echo.text, &echo);
    } else if (event.kind == Kind::text) {
      if (event.text.empty() && !(has_logprobs() && has_shown(event.tokens))) return;
      add(event, event.text, nullptr);
    } else if (event.kind == Kind::end) {
      open_choice(event.answer);
      out_ += concat(",\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"",
                     finish_reason(event.end), "\",\"seed\":", event.whole->completion.seed);
      close_choice();
    }
  }

 private:
  const Echo& echo_of(size_t answer) const { return echoes_[answer / static_cast<size_t>(n_)]; }
  // Text of the answer, or the echo before it.
  void add(const AnswerEvent& event, std::string_view text, const Echo* echo) {
    open_choice(event.answer);
    out_ += ",\"text\":";
    append_json(out_, text);
    out_ += ",\"logprobs\":";
    if (has_logprobs() && (echo ? echo->first.has_value() : !event.tokens.empty())) {
      OldLogprobs logprobs(tokenizer(), offsets_[static_cast<size_t>(event.answer)]);
      if (echo)
        logprobs.add_prompt(*echo, event.tokens);
      else
        logprobs.add(event.tokens);
      out_ += logprobs.text();
    } else {
      out_ += "null";
    }
    out_ += ",\"finish_reason\":null";
    close_choice();
  }

  std::vector<Echo> echoes_;
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
