#include "tensora/llm/engine_loop.h"

#include <algorithm>

#include "tensora/autograd/grad_mode.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// On the CPU logits are where the sampler is, which is faster than the op.
int64_t choices_of(const EngineOptions& options, const Model& model) {
  if (model.device().is_cpu() && options.steps_at_once == 1 && !*options.overlap) return 0;
  return options.max_sequences * (1 + options.speculation.draft_tokens);
}

// On a GPU a block is copied by two launches per layer, in which a prompt's first tokens are
// computed as well: random prompts nearly always share one or two with one of thousands.
int64_t least_part(const EngineOptions& options, const Model& model) {
  if (options.batch_invariant) return 0;
  return model.device().is_cpu() ? 1 : std::max<int64_t>(1, options.block_size / 4);
}

}  // namespace

Engine::Loop::Loop(const EngineParts& parts, const EngineOptions& options)
    : parts_(parts),
      options_(options),
      cache_(PagedCache::make(parts.model->config(), options.cache_tokens / options.block_size,
                              options.block_size, *options.cache_dtype, parts.model->device())),
      blocks_({.blocks = options.cache_tokens / options.block_size,
               .block_size = options.block_size,
               .share_prefixes = options.share_prefixes,
               .least_part = least_part(options, *parts.model)}),
      scheduler_({.max_sequences = options.max_sequences,
                  .max_tokens = options.max_batch_tokens,
                  .batch_invariant = options.batch_invariant,
                  .share_prefixes = options.share_prefixes},
                 blocks_),
      builder_({.tokens = options.max_batch_tokens,
                .sequences = options.max_sequences,
                .blocks = blocks_.blocks_of(options.context),
                .choices = choices_of(options, *parts.model),
                .overlaps = *options.overlap},
               options.block_size, parts.model->device()),
      steps_(parts.model,
             {.advance = options.steps_at_once > 1 || *options.overlap, .record = options.graphs}),
      drafter_(make_drafter(options)) {
  stats_.blocks = blocks_.use();
  builder_.set_abandoned([this] { return is_step_unwanted(); });
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "engine");
    run();
  });
}

Engine::Loop::~Loop() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
    has_mail_ = true;
  }
  doorbell_->ring();
  thread_.join();
}

void Engine::Loop::add(std::unique_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    const auto waiting = static_cast<int64_t>(inbox_.size()) + stats_.waiting;
    check(options_.max_waiting == 0 || waiting < options_.max_waiting, "engine: ", waiting,
          " requests are waiting already, and no more may");
    inbox_.push_back(std::move(job));
    has_mail_ = true;
  }
  doorbell_->ring();
}

std::string Engine::Loop::salt_of(const Request& request) {
  const std::lock_guard lock(mutex_);
  if (!request.reuse_prefix || request.prompt_logprobs) return concat("alone/", ++last_number_);
  uint64_t adapter = 0;
  if (request.adapter) {
    std::erase_if(adapters_, [](const auto& entry) { return entry.first.expired(); });
    uint64_t& number = adapters_[request.adapter];
    if (number == 0) number = ++last_number_;
    adapter = number;
  }
  return concat("adapter/", adapter, "/", request.adapter ? request.adapter_scale : 1., "/tenant/",
                request.tenant);
}

EngineStats Engine::Loop::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += static_cast<int64_t>(inbox_.size());
  return stats;
}

void Engine::Loop::run() {
  const inference_mode guard;
  while (take_mail()) {
    end_unwanted();
    follow_pauses();
    if (scheduler_.has_work() || flight_) step();
    tell_listeners();
  }
  const auto closed = std::make_exception_ptr(Error("engine: closed before the answer ended"));
  for (const auto& job : jobs_) fail(*job, closed);
  remove_ended();
  tell_listeners();
}

void Engine::Loop::has_news(const Job& job) {
  const auto& listener = job.request.listener;
  if (listener && std::find(listeners_.begin(), listeners_.end(), listener) == listeners_.end())
    listeners_.push_back(listener);
}

void Engine::Loop::tell_listeners() {
  for (const auto& listener : listeners_) listener->on_step();
  listeners_.clear();
}

// New requests become jobs; waits for one where there is nothing to do. False: closing.
bool Engine::Loop::take_mail() {
  if (!scheduler_.has_work() && !flight_) sleep();
  if (!has_mail_.load(std::memory_order_relaxed)) return true;
  const std::lock_guard lock(mutex_);
  has_mail_ = false;
  for (auto& job : inbox_) {
    scheduler_.add(*job);
    jobs_.push_back(std::move(job));
  }
  inbox_.clear();
  stats_.waiting = scheduler_.waiting();
  return !is_closing_;
}

// Waits for a request, or for something that happens to one that pauses.
void Engine::Loop::sleep() {
  auto until = Clock::now() + std::chrono::hours(1);
  for (const auto& job : jobs_) {
    const double deadline = job->request.deadline;
    if (deadline <= 0 || deadline > 3600) continue;
    const auto end = job->submitted + std::chrono::duration<double>(deadline);
    until = std::min(until, std::chrono::time_point_cast<Clock::duration>(end));
  }
  doorbell_->wait_until(until);
}

void Engine::Loop::follow_pauses() {
  bool has_changed = false;
  for (const auto& job : jobs_) {
    const bool pauses = job->state->paused.load(std::memory_order_relaxed);
    if (job->is_paused == pauses) continue;
    job->is_paused = pauses;
    has_changed = true;
    if (!pauses) {
      scheduler_.resume(*job);
      continue;
    }
    scheduler_.pause(*job);
    if (drafter_) drafter_->forget(*job);
  }
  if (!has_changed) return;
  const std::lock_guard lock(mutex_);
  count_sequences();
}

// Why a request ends before its answer does, if it does.
std::optional<FinishReason> Engine::Loop::unwanted(const Job& job) const {
  if (job.state->cancelled.load(std::memory_order_relaxed)) return FinishReason::cancelled;
  const double deadline = job.request.deadline;
  if (deadline > 0 && seconds(Clock::now() - job.submitted) >= deadline)
    return FinishReason::deadline;
  return std::nullopt;
}

// Nobody waits for what the current step computes.
bool Engine::Loop::is_step_unwanted() const {
  if (is_closing_.load(std::memory_order_relaxed)) return true;
  return std::all_of(step_.slices.begin(), step_.slices.end(), [&](const Slice& slice) {
    return unwanted(static_cast<const Job&>(*slice.sequence)).has_value();
  });
}

void Engine::Loop::end_unwanted() {
  for (const auto& job : jobs_)
    if (const auto reason = unwanted(*job)) end(*job, *reason);
  remove_ended();
}

void Engine::Loop::step() {
  const Clock::time_point began = began_ = Clock::now();
  steps_at_once_ = 1;
  if (can_overlap()) return overlapped_step();
  if (flight_) {
    land(*std::exchange(flight_, nullptr));
    remove_ended();
    if (!scheduler_.has_work()) return;
  }
  try {
    look_ahead();
    scheduler_.plan(step_);
    if (step_.slices.empty()) {
      sleep();  // all memory is held by requests that pause
      return;
    }
    start_slices();
    compute();
    scheduler_.commit(step_);
  } catch (const StepAbandoned&) {
    // Its requests are ended before the next step.
  } catch (...) {
    // Those that were computed cannot go on; the others were not touched.
    fail_step(step_);
  }
  remove_ended();
  if (drafter_) guess();
  count_step(began);
}

void Engine::Loop::start_slices() {
  for (const Slice& slice : step_.slices) {
    Job& job = static_cast<Job&>(*slice.sequence);
    if (std::exchange(job.has_started, true)) continue;
    job.started = began_;
    job.result.usage.cached_tokens = job.match.cached_tokens;
    job.result.usage.prefix_broken_at = job.match.broken_at;
  }
}

// Inside a handler.
void Engine::Loop::fail_step(const Step& step) {
  for (const Slice& slice : step.slices)
    if (slice.sequence) fail(static_cast<Job&>(*slice.sequence), std::current_exception());
}

// How many more tokens can be had before somebody has to look: no answer becomes too long, and
// nobody waits to be read.
void Engine::Loop::look_ahead() {
  if (options_.steps_at_once == 1) return;
  int64_t count = drafter_ || has_mail_ || scheduler_.waiting() > 0 ? 1 : options_.steps_at_once;
  for (const auto& job : jobs_) {
    if (job->is_paused) continue;
    if (job->is_reading() || job->request.max_tokens == 0 || !job->device_chooses) count = 1;
    count = std::min(count, options_.context - job->size());
    if (job->request.max_tokens > 0)
      count = std::min(count, job->request.max_tokens - job->result.usage.completion_tokens);
  }
  for (const auto& job : jobs_) job->ahead = std::max<int64_t>(0, count - 1);
}

void Engine::Loop::compute() {
  copy_blocks();
  bool is_any_chosen = false;
  for (const Slice& slice : step_.slices) {
    Job& job = static_cast<Job&>(*slice.sequence);
    job.choices.clear();
    is_any_chosen = is_any_chosen || job.device_chooses;
    // What the device chooses for the host is not looked at.
    for (int64_t i = 0; i < slice.logits; ++i)
      job.choices.push_back(job.sampler.choice(i).value_or(TokenChoice()));
  }
  if (!is_any_chosen)
    for (const Slice& slice : step_.slices) slice.sequence->choices.clear();
  StepGraphs::Result result;
  try {
    result = forward();
  } catch (const StepAbandoned&) {
    synchronize(parts_.model->device());  // before the next batch is written
    throw;
  }
  if (result.logits.size(0) > 0)
    choose(std::move(result));
  else
    synchronize(parts_.model->device());  // before the next batch is written
}

StepGraphs::Result Engine::Loop::forward() {
  const Batch& batch = builder_.build(step_);
  StepGraphs::Result result = steps_.forward(batch, cache_);
  if (!result.tokens.defined()) return result;
  std::vector<Tensor> tokens = {result.tokens};
  if (steps_.advances(batch)) {
    int64_t ahead = options_.steps_at_once - 1;
    for (const Slice& slice : step_.slices) ahead = std::min(ahead, slice.sequence->ahead);
    for (; ahead > 0; --ahead) {
      tokens.back() = tokens.back().clone();  // the next step overwrites it
      tokens.push_back(steps_.forward(batch, cache_).tokens);
    }
  }
  steps_at_once_ = static_cast<int64_t>(tokens.size());
  chosen_ = to_vector<int64_t>(tokens.size() == 1 ? tokens[0] : stack(tokens, 1));
  return result;
}

void Engine::Loop::choose(StepGraphs::Result result) {
  const int64_t vocabulary = result.logits.size(1);
  float* rows = nullptr;
  const int64_t* chosen = nullptr;
  if (result.tokens.defined()) {
    chosen = chosen_.data();
    result.logits = host_logits(result.logits);
  } else {
    result.logits = result.logits.cpu().contiguous();
  }
  if (result.logits.defined()) rows = result.logits.data_ptr<float>();
  if (rows) sample_side_by_side(rows, chosen != nullptr);
  for (const Slice& slice : step_.slices) {
    if (slice.logits == 0) continue;
    Job& job = static_cast<Job&>(*slice.sequence);
    const bool by_host = !chosen || !job.device_chooses;
    try {
      if (job.scores_prompt)
        score_prompt(job, slice, rows);
      else
        take_tokens(job, slice, rows, by_host ? nullptr : chosen);
    } catch (...) {
      fail(job, std::current_exception());  // a grammar's, say: the others go on
    }
    if (by_host) rows += slice.logits * vocabulary;
    if (chosen) chosen += slice.logits * steps_at_once_;
  }
}

void Engine::Loop::guess() {
  std::vector<Sequence*> sequences;
  std::vector<int64_t> most;
  for (const auto& job : jobs_) {
    if (job->blocks.list.empty() || job->is_reading() || job->is_paused) continue;
    int64_t room = std::min(options_.speculation.draft_tokens, options_.context - job->size() - 1);
    if (job->request.max_tokens > 0)
      room = std::min(room, job->request.max_tokens - job->result.usage.completion_tokens - 1);
    if (room <= 0) continue;
    sequences.push_back(job.get());
    most.push_back(room);
  }
  if (!sequences.empty()) drafter_->guess(sequences, most);
}

void Engine::Loop::end(Job& job, FinishReason reason) {
  if (std::exchange(job.has_ended, true)) return;
  std::string rest;
  if (!job.stops.stopped() && job.decoder) {
    rest = job.stops.push(job.decoder->finish());
    rest += job.stops.finish();
  }
  Completion& result = job.result;
  result.text += rest;
  if (const auto met = job.stops.met()) result.stop = job.request.stop[*met];
  result.reason = reason;
  result.seed = job.sampler.seed();
  result.usage.preemptions = job.preemptions;
  const Clock::time_point now = Clock::now();
  Timings& timings = result.timings;
  timings.total = seconds(now - job.submitted);
  timings.queued = job.has_started ? seconds(job.started - job.submitted) : timings.total;
  if (result.usage.completion_tokens > 0) {
    timings.first_token = seconds(job.first - job.submitted);
    timings.predicted = seconds(job.last - job.first);
  } else if (job.has_started) {
    timings.prompt = seconds(now - job.started);
  }
  job.rest = std::move(rest);
}

void Engine::Loop::fail(Job& job, const std::exception_ptr& error) {
  if (!std::exchange(job.has_ended, true)) job.error = error;
}

// The caller is told when all that the request had is free again.
void Engine::Loop::remove_ended() {
  for (const auto& job : jobs_) {
    if (!job->has_ended) continue;
    scheduler_.remove(*job);
    if (drafter_) drafter_->forget(*job);
    if (flight_)
      for (Slice& slice : flight_->step.slices)
        if (slice.sequence == job.get()) slice.sequence = nullptr;
    count_request(job->result.usage);
    has_news(*job);
    if (job->error)
      job->state->fail(job->error);
    else
      job->state->finish(job->rest, std::move(job->result));
  }
  std::erase_if(jobs_, [](const std::unique_ptr<Job>& job) { return job->has_ended; });
}

// The lock must be held.
void Engine::Loop::count_sequences() {
  stats_.running = scheduler_.running();
  stats_.waiting = scheduler_.waiting();
  stats_.blocks = blocks_.use();
}

void Engine::Loop::count_request(const Usage& usage) {
  const std::lock_guard lock(mutex_);
  ++stats_.requests;
  count_sequences();
  stats_.prompt_tokens += usage.prompt_tokens;
  stats_.cached_tokens += usage.cached_tokens;
  stats_.generated_tokens += usage.completion_tokens;
  stats_.drafted_tokens += usage.drafted_tokens;
  stats_.accepted_tokens += usage.accepted_tokens;
  stats_.preemptions += usage.preemptions;
}

void Engine::Loop::count_step(Clock::time_point began) {
  const std::lock_guard lock(mutex_);
  stats_.steps += steps_at_once_;
  count_sequences();
  stats_.busy_seconds += seconds(Clock::now() - began);
}

}  // namespace tensora::llm
