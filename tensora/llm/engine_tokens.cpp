// What becomes of the logits of a step.
#include <algorithm>
#include <limits>

#include "tensora/base/thread_pool.h"
#include "tensora/llm/engine_loop.h"

namespace tensora::llm {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

// Logits that are worth a thread's while.
constexpr int64_t kSampleGrain = 1 << 15;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

// Samples the next token of each sequence that has one row of logits. Done one after the other,
// 64 sequences with a vocabulary of 128k tokens keep the other cores waiting for milliseconds.
void Engine::Loop::sample_side_by_side(float* rows, bool by_device) {
  const auto vocabulary = static_cast<size_t>(parts_.model->config().vocab_size);
  std::vector<std::pair<Job*, float*>> work;
  for (const Slice& slice : step_.slices) {
    Job& job = static_cast<Job&>(*slice.sequence);
    job.sampled.reset();
    if (slice.logits == 0 || (by_device && job.device_chooses)) continue;
    if (slice.logits == 1 && !job.scores_prompt) work.emplace_back(&job, rows);
    rows += static_cast<size_t>(slice.logits) * vocabulary;
  }
  const int64_t grain = std::max<int64_t>(1, kSampleGrain / static_cast<int64_t>(vocabulary));
  parallel_for(std::ssize(work), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [job, row] = work[static_cast<size_t>(i)];
      try {
        job->sampled = job->sampler.sample({row, vocabulary});
      } catch (...) {
        job->error = std::current_exception();  // the others go on
      }
    }
  });
}

// A row's logits are those of the token after it. Behind the prompt that is the answer's first.
void Engine::Loop::score_prompt(Job& job, const Slice& slice, float* rows) {
  const auto vocabulary = static_cast<size_t>(parts_.model->config().vocab_size);
  std::vector<Sampled>& scores = job.result.prompt_logprobs;
  scores.resize(static_cast<size_t>(job.prompt_size) - 1);
  for (int64_t i = 0; i < slice.count; ++i, rows += vocabulary) {
    const auto next = static_cast<size_t>(slice.first + i + 1);
    if (next < job.tokens.size()) {
      scores[next - 1] = job.sampler.score({rows, vocabulary}, job.tokens[next]);
      continue;
    }
    job.scores_prompt = false;
    job.state->add_prompt(scores);
    has_news(job);
    // With what follows of a draft.
    take_tokens(job, {&job, slice.first + i, slice.count - i, slice.count - i}, rows, nullptr);
    return;
  }
}

// Chooses tokens as long as they are those of the draft; the one that is not is right, too.
void Engine::Loop::take_tokens(Job& job, const Slice& slice, float* rows, const int64_t* chosen) {
  const auto vocabulary = static_cast<size_t>(parts_.model->config().vocab_size);
  const std::vector<int32_t> draft = std::exchange(job.draft, {});
  job.result.usage.drafted_tokens += static_cast<int64_t>(draft.size());
  const Clock::time_point now = Clock::now();
  for (int64_t i = 0; i < slice.logits * steps_at_once_; ++i) {
    Sampled sampled;
    if (chosen) {
      check(chosen[i] >= 0,
            "sampling: expected logits below infinity, and not all of them "
            "-infinity");
      sampled = {.token = static_cast<int32_t>(chosen[i]), .logprob = kUnknown};
      job.sampler.count_choice();
    } else if (job.error) {
      std::rethrow_exception(std::exchange(job.error, nullptr));
    } else if (job.sampled) {
      sampled = *std::exchange(job.sampled, std::nullopt);
    } else {
      sampled = job.sampler.sample({rows + static_cast<size_t>(i) * vocabulary, vocabulary});
    }
    const int32_t token = sampled.token;
    // Steps at once took equally long.
    const auto since = (now - began_) / steps_at_once_ * (steps_at_once_ - 1 - i);
    if (!take_token(job, std::move(sampled), steps_at_once_ > 1 ? now - since : now)) return;
    if (steps_at_once_ > 1) continue;
    if (i == static_cast<int64_t>(draft.size()) || token != draft[static_cast<size_t>(i)]) return;
    ++job.result.usage.accepted_tokens;
  }
}

// The answer goes on with a token. False if it ends with it.
bool Engine::Loop::take_token(Job& job, Sampled sampled, Clock::time_point now) {
  if (job.request.max_tokens == 0) {
    end(job, FinishReason::length);
    return false;
  }
  const int32_t token = sampled.token;
  Usage& usage = job.result.usage;
  Timings& timings = job.result.timings;
  if (usage.completion_tokens++ == 0) {
    job.first = now;
    timings.prompt = seconds(now - job.started);
  } else {
    const double time = seconds(now - job.last);
    timings.min_token = usage.completion_tokens == 2 ? time : std::min(timings.min_token, time);
    timings.max_token = std::max(timings.max_token, time);
  }
  job.last = now;
  job.sampler.accept(token);
  // From now on the device can, where nothing but min_tokens prevented it.
  if (usage.completion_tokens == job.request.min_tokens)
    job.device_chooses = job.sampler.choice().has_value();
  job.tokens.push_back(token);
  job.result.tokens.push_back(token);
  if (job.request.sampling.logprobs) job.result.logprobs.push_back(sampled);
  const auto& stops = job.request.stop_tokens;
  // Nothing fits behind the end of a grammar.
  const SamplingOptions& sampling = job.request.sampling;
  const bool ignores_end =
      job.request.ignore_end && sampling.grammar.empty() && sampling.json_schema.empty();
  const bool is_end =
      (parts_.tokenizer && !ignores_end && parts_.tokenizer->is_end_of_generation(token)) ||
      std::find(stops.begin(), stops.end(), token) != stops.end();
  std::string text;
  if (job.decoder && !(is_end && !job.request.shows_special)) {
    text = job.decoder->push(token);
    if (!job.request.stop.empty() && usage.completion_tokens > job.request.min_tokens)
      text = job.stops.push(text);
    job.result.text += text;
  }
  job.state->add(text, std::move(sampled));
  has_news(job);
  if (is_end || job.stops.stopped())
    end(job, FinishReason::stop);
  else if (usage.completion_tokens == job.request.max_tokens)
    end(job, FinishReason::length);
  else if (job.size() >= options_.context)
    make_room(job);
  return !job.has_ended && !job.blocks.list.empty();
}

// The context is full: the answer ends, or the older half of the text goes.
void Engine::Loop::make_room(Job& job) {
  if (job.request.overflow != Overflow::shift) {
    job.result.context_full = true;
    end(job, FinishReason::length);
    return;
  }
  const int64_t dropped = std::max<int64_t>(1, (job.size() - job.request.keep) / 2);
  const auto from = job.tokens.begin() + static_cast<ptrdiff_t>(job.request.keep);
  job.tokens.erase(from, from + static_cast<ptrdiff_t>(dropped));
  job.prompt_size = job.size();
  job.result.usage.shifted_tokens += dropped;
  if (drafter_) drafter_->forget(job);
  scheduler_.restart(job);
}

}  // namespace tensora::llm
