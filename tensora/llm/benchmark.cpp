#include "tensora/llm/benchmark.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "tensora/core/backend.h"
#include "tensora/llm/backends/framework_backend.h"
#include "tensora/llm/step_graphs.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

BenchCourse::BenchCourse(FrameworkBackend& backend, const BenchTest& test,
                         const BenchOptions& options)
    : test_(test),
      at_once_(options.steps_at_once > 0 ? options.steps_at_once
                                         : good_steps_at_once(backend.device())),
      is_on_cpu_(backend.device().is_cpu()) {
  test.check_valid();
  check(options.batch > 0, "bench: expected a batch of at least one token, got ", options.batch);
  check(options.steps_at_once >= 0 && options.steps_at_once <= 64,
        "bench: steps_at_once must be from 0 to 64, got ", options.steps_at_once);
  session_ = backend.open_sequences({.sequences = test.sequences,
                                     .context = test.depth + test.prompt + test.generate,
                                     .max_batch_tokens = std::max(options.batch, test.sequences),
                                     .block_size = options.block_size,
                                     .cache_dtype = options.cache_dtype,
                                     .generates = at_once_ > 1});
  ensure(session_ != nullptr, backend.name(), ": no sequences were opened");
  vocabulary_ = backend.model_info().config.vocab_size;
  check(vocabulary_ > 0, "bench: ", backend.name(), " does not say how large the vocabulary is");
}

// Puts every sequence at its depth.
void BenchCourse::go_to_depth() {
  if (depth_.empty() && test_.depth > 0) depth_ = random_tokens(test_.depth);
  for (int64_t i = 0; i < test_.sequences; ++i) {
    session_->truncate(i, test_.depth);
    if (session_->length(i) == test_.depth) continue;
    if (i == 0)
      session_->read(i, depth_);
    else
      session_->copy(0, i, depth_);
  }
  session_->synchronize();
}

double BenchCourse::read_prompt() {
  if (test_.prompt == 0) return 0;
  const auto tokens = random_tokens(test_.prompt);
  const auto began = Clock::now();
  // Steps are filled with the prompts one after the other; the last token of each has logits.
  const size_t all = tokens.size() * static_cast<size_t>(test_.sequences);
  std::vector<SequenceSession::Part> parts;
  for (size_t done = 0; done < all;) {
    parts.clear();
    auto room = static_cast<size_t>(session_->options().max_batch_tokens);
    while (room > 0 && done < all) {
      const size_t at = done % tokens.size();
      const size_t count = std::min(room, tokens.size() - at);
      parts.push_back(
          {static_cast<int64_t>(done / tokens.size()), std::span(tokens).subspan(at, count)});
      done += count;
      room -= count;
    }
    session_->forward(parts, done % tokens.size() == 0 || test_.sequences > 1
                                 ? SequenceSession::Rows::last
                                 : SequenceSession::Rows::none);
  }
  session_->synchronize();
  return seconds_since(began);
}

void BenchCourse::generate(std::vector<double>& steps) {
  std::vector<int32_t> tokens(static_cast<size_t>(test_.sequences));
  std::vector<SequenceSession::Part> parts;
  for (int64_t i = 0; i < test_.sequences; ++i)
    parts.push_back({i, std::span(tokens).subspan(static_cast<size_t>(i), 1)});
  for (int32_t& token : tokens) token = random_token();
  for (int64_t step = 0; step < test_.generate;) {
    const int64_t count = std::min(at_once_, test_.generate - step);
    const auto began = Clock::now();
    if (at_once_ > 1) {
      tokens = session_->generate(tokens, count);
    } else {
      session_->forward(parts, SequenceSession::Rows::last);
      session_->synchronize();
    }
    steps.insert(steps.end(), static_cast<size_t>(count),
                 seconds_since(began) / static_cast<double>(count));
    step += count;
    if (at_once_ == 1)
      for (int32_t& token : tokens) token = random_token();
  }
}

void BenchCourse::warm_up() {
  if (!is_on_cpu_) {
    BenchSamples untimed;
    repeat(untimed);
    return;
  }
  go_to_depth();
  const auto tokens = random_tokens(
      std::min<int64_t>(std::max<int64_t>(test_.prompt, 1), session_->options().max_batch_tokens));
  const int64_t fits = std::min<int64_t>(static_cast<int64_t>(tokens.size()),
                                         session_->options().context - session_->length(0));
  session_->read(0, std::span(tokens).first(static_cast<size_t>(fits)));
  session_->synchronize();
}

void BenchCourse::repeat(BenchSamples& samples) {
  go_to_depth();
  samples.prompt.push_back(read_prompt());
  const auto done = static_cast<ptrdiff_t>(samples.steps.size());
  generate(samples.steps);
  samples.total.push_back(
      std::accumulate(samples.steps.begin() + done, samples.steps.end(), samples.prompt.back()));
}

int32_t BenchCourse::random_token() {
  return static_cast<int32_t>(random_() % static_cast<uint64_t>(vocabulary_));
}

std::vector<int32_t> BenchCourse::random_tokens(int64_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = random_token();
  return tokens;
}

std::string BenchTest::name() const {
  std::string out;
  if (prompt > 0) out += concat("pp", prompt);
  if (generate > 0) out += concat(out.empty() ? "" : "+", "tg", generate);
  if (sequences > 1) out += concat(" x", sequences);
  if (depth > 0) out += concat(" @ d", depth);
  return out;
}

void BenchTest::check_valid() const {
  check(prompt >= 0 && generate >= 0 && depth >= 0 && prompt + generate > 0,
        "bench: expected a prompt or tokens to generate, got ", prompt, " and ", generate,
        " at a depth of ", depth);
  check(sequences > 0, "bench: expected at least one sequence, got ", sequences);
  constexpr int64_t kMost = int64_t{1} << 30;
  check(prompt <= kMost && generate <= kMost && depth <= kMost && sequences <= 65536,
        "bench: the test ", name(), " is too large");
}

std::vector<double> BenchSamples::speeds(const BenchTest& test) const {
  std::vector<double> out;
  for (const double time : total) out.push_back(static_cast<double>(test.tokens()) / time);
  return out;
}

BenchSamples run_benchmark(FrameworkBackend& backend, const BenchTest& test,
                           const BenchOptions& options) {
  test.check_valid();
  check(options.repetitions > 0, "bench: expected at least one repetition, got ",
        options.repetitions);
  BenchCourse course(backend, test, options);
  if (options.warms_up) course.warm_up();
  BenchSamples samples;
  for (int64_t i = 0; i < options.repetitions; ++i) course.repeat(samples);
  return samples;
}

BenchmarkResult result_of(const BenchTest& test, const BenchSamples& samples,
                          BenchmarkResult known) {
  BenchmarkResult result = std::move(known);
  result.iterations = static_cast<int64_t>(samples.total.size());
  result.total_time = std::accumulate(samples.total.begin(), samples.total.end(), 0.);
  const auto count = static_cast<double>(result.iterations);
  const auto sequences = static_cast<double>(test.sequences);
  // The first token comes at the end of the prompt, or with the first step.
  double first = 0;
  for (size_t i = 0; i < samples.total.size(); ++i)
    first +=
        test.prompt > 0 ? samples.prompt[i] : samples.steps[i * static_cast<size_t>(test.generate)];
  result.first_token_time = first / count;
  std::vector<double> tokens = samples.steps;
  for (double& time : tokens) time /= sequences;
  if (tokens.empty())
    for (const double time : samples.total)
      tokens.push_back(time / static_cast<double>(test.tokens()));
  result.avg_token_time = spread_of(tokens).mean;
  result.min_token_time = *std::min_element(tokens.begin(), tokens.end());
  result.max_token_time = *std::max_element(tokens.begin(), tokens.end());
  result.avg_tokens_per_second = spread_of(samples.speeds(test)).mean;
  result.peak_tokens_per_second = 1 / result.min_token_time;
  result.optimization_level = optimization_text();
  return result;
}

double measured_bandwidth(Device device) {
  // More than any cache holds.
  const int64_t numbers = device.is_cpu() ? int64_t{1} << 25 : int64_t{1} << 28;
  const inference_mode guard;
  const Tensor data = ones({numbers}, {.dtype = kFloat32, .device = device});
  double best = 1e30;
  for (int i = 0; i < 8; ++i) {
    synchronize(device);
    const auto began = Clock::now();
    const Tensor total = sum(data);
    synchronize(device);
    best = std::min(best, seconds_since(began));
  }
  return static_cast<double>(data.nbytes()) / best;
}

double bytes_per_step(const ModelSummary& summary, const ModelConfig& config, const BenchTest& test,
                      DType cache_dtype) {
  const double positions =
      static_cast<double>(test.depth + test.prompt) + static_cast<double>(test.generate) / 2;
  return static_cast<double>(summary.read_bytes) +
         static_cast<double>(config.cache_bytes_per_token(cache_dtype)) * positions *
             static_cast<double>(test.sequences);
}

}  // namespace tensora::llm
