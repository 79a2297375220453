#include "tensora/serve/answer_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tensora/base/check.h"
#include "tensora/llm/grammar/grammar_cache.h"

namespace tensora::serve {
namespace {

constexpr double kFirstToken[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                  1,     2.5,    5,     10,   20,    40,   80,  160};
constexpr double kBetween[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                               0.075,  0.1,     0.15,   0.2,   0.3,    0.5,   0.75, 1,     2.5};
constexpr double kLong[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1,   1.5, 2,
                            2.5,   5,     10,   15,   20,  30,  40,  60,  120, 480, 1920};
constexpr double kTokens[] = {1,    2,    5,    10,    20,    50,    100,    200,    500,
                              1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000};

void append(std::string& out, double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter == '\n' ? ' ' : letter;
  }
  return out + '"';
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds) : bounds_(bounds) {
  ensure(bounds.size() <= kMostBounds, "histogram: too many bounds");
}

void Histogram::add(double value, uint64_t count) {
  if (!std::isfinite(value)) return;
  const auto found = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<size_t>(found - bounds_.begin())].add(count);
  sum_.store(sum_.load(std::memory_order_relaxed) + value * static_cast<double>(count),
             std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t count = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) count += counts_[i].value();
  return count;
}

void Histogram::write(std::string& out, std::string_view name, const std::string& labels) const {
  uint64_t count = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) {
    count += counts_[i].value();
    out += concat(name, "_bucket{", labels, ",le=\"");
    if (i < bounds_.size())
      append(out, bounds_[i]);
    else
      out += "+Inf";
    out += concat("\"} ", count, "\n");
  }
  out += concat(name, "_sum{", labels, "} ");
  append(out, sum_.load(std::memory_order_relaxed));
  out += concat("\n", name, "_count{", labels, "} ", count, "\n");
}

AnswerMetrics::AnswerMetrics(std::string model_name, std::string framework_name)
    : model(std::move(model_name)),
      framework(std::move(framework_name)),
      first_token(kFirstToken),
      between_tokens(kBetween),
      per_token(kBetween),
      total(kLong),
      queued(kLong),
      prefill(kLong),
      decode(kLong),
      request_prompt(kTokens),
      request_generation(kTokens) {}

void AnswerMetrics::add(const Answer& answer) {
  const llm::Usage& usage = answer.completion.usage;
  const llm::Timings& timings = answer.completion.timings;
  const auto count = [](int64_t tokens) {
    return static_cast<uint64_t>(std::max<int64_t>(0, tokens));
  };
  cached_tokens.add(count(usage.cached_tokens));
  drafted_tokens.add(count(usage.drafted_tokens));
  accepted_tokens.add(count(usage.accepted_tokens));
  preemptions.add(count(usage.preemptions));
  if (answer.end != AnswerEnd::cancelled) ended[static_cast<size_t>(answer.end)].add();
  if (usage.completion_tokens > 0) first_token.add(timings.first_token);
  if (usage.completion_tokens > 1) per_token.add(answer.completion.mean_token());
  total.add(timings.total);
  queued.add(timings.queued);
  prefill.add(timings.prompt);
  decode.add(timings.predicted);
  request_prompt.add(static_cast<double>(usage.prompt_tokens));
  request_generation.add(static_cast<double>(usage.completion_tokens));
}

namespace {

// Writes the series of one name after another, each with its help and type.
class Page {
 public:
  explicit Page(std::span<const ModelGauges> models) : models_(models) {
    for (const ModelGauges& one : models)
      labels_.push_back(concat("model=", quoted(one.metrics->model),
                               ",framework=", quoted(one.metrics->framework)));
  }

  void head(std::string_view name, std::string_view type, std::string_view help) {
    out_ += concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void value(std::string_view name, std::string_view type, std::string_view help, double number) {
    head(name, type, help);
    line(name, {}, number);
  }
  void line(std::string_view name, const std::string& labels, double number) {
    out_ += name;
    if (!labels.empty()) out_ += concat("{", labels, "}");
    out_ += ' ';
    append(out_, number);
    out_ += '\n';
  }
  void counter(std::string_view name, std::string_view help, Counter AnswerMetrics::*member) {
    head(name, "counter", help);
    for (size_t i = 0; i < models_.size(); ++i)
      line(name, labels_[i], static_cast<double>((models_[i].metrics->*member).value()));
  }
  void histogram(std::string_view name, std::string_view help, Histogram AnswerMetrics::*member) {
    head(name, "histogram", help);
    for (size_t i = 0; i < models_.size(); ++i)
      (models_[i].metrics->*member).write(out_, name, labels_[i]);
  }
  template <size_t N>
  void causes(std::string_view name, std::string_view help, std::string_view label,
              const std::array<const char*, N>& words,
              std::array<Counter, N> AnswerMetrics::*member) {
    head(name, "counter", help);
    for (size_t i = 0; i < models_.size(); ++i)
      for (size_t j = 0; j < N; ++j)
        line(name, concat(labels_[i], ",", label, "=\"", words[j], "\""),
             static_cast<double>((models_[i].metrics->*member)[j].value()));
  }
  // A figure of each model that is loaded.
  void gauge(std::string_view name, std::string_view help,
             const std::function<double(size_t model)>& figure) {
    head(name, "gauge", help);
    for (size_t i = 0; i < models_.size(); ++i)
      if (models_[i].model) line(name, labels_[i], figure(i));
  }
  const std::string& labels(size_t model) const { return labels_[model]; }
  std::string take() { return std::move(out_); }

 private:
  std::span<const ModelGauges> models_;
  std::vector<std::string> labels_;
  std::string out_;
};

void write_answers(Page& page) {
  using M = AnswerMetrics;
  page.counter("tensora_prompt_tokens_total", "Prompt tokens, cached ones included.",
               &M::prompt_tokens);
  page.counter("tensora_prompt_tokens_cached_total", "Prompt tokens found in the prefix cache.",
               &M::cached_tokens);
  page.counter("tensora_generation_tokens_total", "Generated tokens.", &M::generation_tokens);
  page.counter("tensora_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
               &M::prompt_tokens);
  page.counter("tensora_prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
               &M::cached_tokens);
  page.counter("tensora_num_preemptions_total",
               "Times a sequence gave up its cache blocks to others.", &M::preemptions);
  page.counter("tensora_spec_decode_num_draft_tokens_total", "Drafted tokens.", &M::drafted_tokens);
  page.counter("tensora_spec_decode_num_accepted_tokens_total", "Drafted tokens accepted.",
               &M::accepted_tokens);
  page.causes<4>("tensora_request_success_total", "Answers that ended, by reason.",
                 "finished_reason", {"stop", "length", "tool_calls", "deadline"}, &M::ended);
  page.causes<2>("tensora_request_cancelled_total", "Answers that were cancelled, by cause.",
                 "reason", {"client_gone", "shutdown"}, &M::cancelled);
  page.counter("tensora_request_failure_total", "Answers that ended with an error.", &M::failures);
  page.histogram("tensora_time_to_first_token_seconds", "Time to first token.", &M::first_token);
  page.histogram("tensora_inter_token_latency_seconds", "Time between tokens, as delivered.",
                 &M::between_tokens);
  page.histogram("tensora_request_time_per_output_token_seconds",
                 "Mean time per output token of an answer.", &M::per_token);
  page.histogram("tensora_e2e_request_latency_seconds", "End-to-end time of an answer.", &M::total);
  page.histogram("tensora_request_queue_time_seconds", "Time before the prefill began.",
                 &M::queued);
  page.histogram("tensora_request_prefill_time_seconds", "Time in prefill.", &M::prefill);
  page.histogram("tensora_request_decode_time_seconds", "Time in decode.", &M::decode);
  page.histogram("tensora_request_prompt_tokens", "Prompt tokens of an answer.",
                 &M::request_prompt);
  page.histogram("tensora_request_generation_tokens", "Generated tokens of an answer.",
                 &M::request_generation);
}

}  // namespace

std::string prometheus_text(const ServiceLoad& load, std::span<const ModelGauges> models) {
  Page page(models);
  std::vector<llm::EngineStats> stats(models.size());
  std::vector<llm::BackendMemory> memory(models.size());
  for (size_t i = 0; i < models.size(); ++i) {
    if (!models[i].model) continue;
    stats[i] = models[i].model->backend->stats();
    memory[i] = models[i].model->backend->memory_usage();
  }
  page.gauge("tensora_num_requests_running", "Sequences in the engine's batch.",
             [&](size_t i) { return static_cast<double>(stats[i].running); });
  page.gauge("tensora_num_requests_waiting", "Sequences that wait in the engine.",
             [&](size_t i) { return static_cast<double>(stats[i].waiting); });
  page.gauge("tensora_kv_cache_usage_perc", "Share of KV-cache blocks in use, from 0 to 1.",
             [&](size_t i) {
               const llm::BlockUse& use = stats[i].blocks;
               return use.total > 0 ? static_cast<double>(use.used) / static_cast<double>(use.total)
                                    : 0.;
             });
  page.gauge("tensora_kv_cache_blocks_used", "KV-cache blocks in use by sequences.",
             [&](size_t i) { return static_cast<double>(stats[i].blocks.used); });
  page.gauge("tensora_kv_cache_blocks_cached", "KV-cache blocks kept for later prompts.",
             [&](size_t i) { return static_cast<double>(stats[i].blocks.cached); });
  page.gauge("tensora_weight_memory_bytes", "Bytes of the weights.",
             [&](size_t i) { return static_cast<double>(memory[i].model_bytes); });
  page.gauge("tensora_kv_cache_memory_bytes", "Bytes of the KV cache.",
             [&](size_t i) { return static_cast<double>(memory[i].cache_bytes); });
  page.head("tensora_engine_steps_total", "counter", "Forward passes of the engine.");
  for (size_t i = 0; i < models.size(); ++i)
    if (models[i].model)
      page.line("tensora_engine_steps_total", page.labels(i), static_cast<double>(stats[i].steps));
  page.head("tensora_engine_busy_seconds_total", "counter", "Time that the engine computed.");
  for (size_t i = 0; i < models.size(); ++i)
    if (models[i].model)
      page.line("tensora_engine_busy_seconds_total", page.labels(i), stats[i].busy_seconds);
  page.head("tensora_device_memory_bytes", "gauge", "Bytes in use on each device.");
  for (size_t i = 0; i < models.size(); ++i)
    for (const auto& reading : memory[i].devices)
      page.line("tensora_device_memory_bytes",
                concat(page.labels(i), ",device=\"", reading.device, "\""),
                static_cast<double>(reading.used));
  page.value("tensora_num_requests_queued", "gauge", "Answers that wait for a place in an engine.",
             static_cast<double>(load.queued));
  page.value("tensora_open_answers", "gauge", "Answers that have not ended.",
             static_cast<double>(load.answers));
  page.value("tensora_open_streams", "gauge", "Open streams.", static_cast<double>(load.streams));
  page.value("tensora_paused_streams", "gauge", "Streams whose client reads too slowly.",
             static_cast<double>(load.paused));
  page.value("tensora_unsent_bytes", "gauge", "Bytes that clients have not taken yet.",
             static_cast<double>(load.unsent_bytes));
  const llm::GrammarCacheStats grammars = llm::grammar_cache_stats();
  page.value("tensora_grammar_cache_hits_total", "counter",
             "Grammars and schemas that were compiled already.",
             static_cast<double>(grammars.hits));
  page.value("tensora_grammar_cache_misses_total", "counter",
             "Grammars and schemas that were compiled.", static_cast<double>(grammars.misses));
  page.value("tensora_grammar_compile_seconds_total", "counter",
             "Seconds spent on compiling grammars and schemas.", grammars.compile_seconds);
  write_answers(page);
  return page.take();
}

}  // namespace tensora::serve
