#include "tensora/serve/answer_job.h"

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

double seconds(ServiceClock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

ApiError too_late() {
  ApiError error(503, "the request's time was over before it could be computed", {}, kTooLate);
  error.headers.emplace_back("retry-after", "5");
  return error;
}

AnswerJob::AnswerJob(ServedModelPtr model, AnswerRequest request, const AnswerFormat& format,
                     std::shared_ptr<AnswerSink> sink, std::shared_ptr<AnswerMetrics> metrics,
                     ServiceClock::time_point came)
    : model_(std::move(model)),
      request_(std::move(request)),
      sink_(std::move(sink)),
      metrics_(std::move(metrics)),
      came_(came) {
  answers_.resize(request_.prompts.size() * static_cast<size_t>(request_.n));
  for (One& one : answers_) one.parser = format.parser();
}

double AnswerJob::age() const { return seconds(ServiceClock::now() - came_); }

bool AnswerJob::is_time_over() const {
  const double deadline = request_.request.deadline;
  return deadline > 0 && age() >= deadline;
}

bool AnswerJob::is_late() const {
  return active_ == 0 && ended_ == 0 && !is_over_ && is_time_over();
}

const std::vector<int32_t>& AnswerJob::prompt_of(size_t answer) const {
  return request_.prompts[answer / static_cast<size_t>(request_.n)];
}

llm::Request AnswerJob::request_of(size_t answer) const {
  llm::Request request = request_.request;
  request.tokens = prompt_of(answer);
  // Answers of one prompt are to differ, and to be the same again with the same seed.
  const uint64_t number = answer % static_cast<size_t>(request_.n);
  if (request.sampling.seed) *request.sampling.seed += number;
  if (request.deadline > 0) {
    request.deadline -= age();
    if (request.deadline <= 0) throw too_late();
  }
  return request;
}

bool AnswerJob::start(size_t answer, llm::Generation generation, double waited) {
  One& one = answers_[answer];
  if (is_over_ || one.has_ended) return false;  // the generation is cancelled with its handle
  one.waited = waited;
  ++active_;
  one.generation.emplace(std::move(generation));
  if (is_paused_) one.generation->pause();
  return true;
}

void AnswerJob::end_late(size_t answer) {
  if (is_over_ || answers_[answer].has_ended) return;
  if (active_ == 0 && ended_ == 0) return fail(too_late());
  deliver();
}

// Ends the answers that the engine will not get in time.
void AnswerJob::end_waiting() {
  const double waited = age();
  for (size_t i = 0; i < answers_.size(); ++i) {
    One& one = answers_[i];
    if (one.generation || one.has_ended) continue;
    begin(one, {});
    llm::Completion& completion = one.answer.completion;
    completion.reason = llm::FinishReason::deadline;
    completion.usage.prompt_tokens = std::ssize(prompt_of(i));
    completion.timings.queued = completion.timings.total = waited;
    end(one);
  }
}

void AnswerJob::give(One& one, AnswerEvent&& event) {
  Answer& answer = one.answer;
  const bool wants_logprobs = request_.request.sampling.logprobs;
  switch (event.kind) {
    case AnswerEvent::Kind::text:
      answer.text += event.text;
      if (wants_logprobs)
        answer.text_logprobs.insert(answer.text_logprobs.end(), event.tokens.begin(),
                                    event.tokens.end());
      break;
    case AnswerEvent::Kind::reasoning:
      answer.reasoning += event.text;
      answer.reasoning_tokens += static_cast<int64_t>(event.tokens.size());
      break;
    case AnswerEvent::Kind::call:
      answer.calls.push_back({.id = event.call_id, .name = event.name});
      break;
    case AnswerEvent::Kind::arguments:
      answer.calls.at(static_cast<size_t>(event.call)).arguments += event.text;
      break;
    case AnswerEvent::Kind::begin:
      answer.prompt_logprobs = event.tokens;
      break;
    case AnswerEvent::Kind::end:
      break;
  }
  if (!request_.wants_parts) return;
  has_news_ = true;
  event.answer = &one - answers_.data();
  sink_->on_event(event);
}

void AnswerJob::count_tokens(One& one, size_t tokens) {
  const auto now = ServiceClock::now();
  metrics_->generation_tokens.add(tokens);
  if (one.has_begun && tokens > 0)
    metrics_->between_tokens.add(seconds(now - one.last) / static_cast<double>(tokens), tokens);
  one.last = now;
}

// The answer has its first token, or ends without one.
void AnswerJob::begin(One& one, std::vector<llm::Sampled> scores) {
  if (std::exchange(one.has_begun, true)) return;
  const auto& prompt = prompt_of(static_cast<size_t>(&one - answers_.data()));
  metrics_->prompt_tokens.add(prompt.size());
  give(one, {.kind = AnswerEvent::Kind::begin,
             .prompt_tokens = std::ssize(prompt),
             .tokens = std::move(scores)});
}

void AnswerJob::deliver_one(One& one) {
  const auto give_on = [&](AnswerEvent&& event) { give(one, std::move(event)); };
  const bool goes_on = one.generation->take(one.piece);
  if (!one.piece.is_empty()) {
    count_tokens(one, one.piece.tokens.size());
    begin(one, std::move(one.piece.prompt));
    one.parser->push(std::move(one.piece), give_on);
  }
  if (goes_on) return;
  begin(one, {});
  finish(one);
}

void AnswerJob::finish(One& one) {
  Answer& answer = one.answer;
  answer.completion = one.generation->wait();  // has ended
  one.generation.reset();
  --active_;
  llm::Timings& timings = answer.completion.timings;
  timings.queued += one.waited;
  timings.total += one.waited;
  if (timings.first_token > 0) timings.first_token += one.waited;
  end(one);
}

void AnswerJob::end(One& one) {
  Answer& answer = one.answer;
  answer.end = one.parser->finish(answer.completion,
                                  [&](AnswerEvent&& event) { give(one, std::move(event)); });
  one.parser.reset();
  one.has_ended = true;
  ++ended_;
  metrics_->add(answer);
  give(one, {.kind = AnswerEvent::Kind::end, .end = answer.end, .whole = &answer});
}

void AnswerJob::deliver() {
  if (is_over_) return;
  has_news_ = false;
  for (One& one : answers_)
    if (one.generation) deliver_one(one);
  if (static_cast<size_t>(active_) + ended_ < answers_.size() && is_time_over()) end_waiting();
  if (has_news_) sink_->on_flush();
  if (ended_ < answers_.size()) return;
  is_over_ = true;
  std::vector<Answer> answers;
  for (One& one : answers_) answers.push_back(std::move(one.answer));
  sink_->on_end(answers);
}

void AnswerJob::drop_generations() {
  for (One& one : answers_) one.generation.reset();  // cancels it
  active_ = 0;
  is_over_ = true;
}

void AnswerJob::cancel(CancelCause cause) {
  if (is_over_) return;
  for (const One& one : answers_)
    if (!one.has_ended) metrics_->add_cancelled(cause);
  drop_generations();
}

void AnswerJob::fail(const ApiError& error) {
  if (is_over_) return;
  const bool is_shutdown = error.code == "shutting_down";
  for (const One& one : answers_) {
    if (one.has_ended) continue;
    if (is_shutdown)
      metrics_->add_cancelled(CancelCause::shutdown);
    else
      metrics_->add_failure();
  }
  drop_generations();
  sink_->on_error(error);
}

size_t AnswerJob::follow_client(size_t most) {
  const size_t unsent = sink_->reply().unsent();
  const bool pauses = is_paused_ ? unsent >= most / 2 : unsent > most;
  if (pauses != is_paused_) {
    is_paused_ = pauses;
    for (One& one : answers_)
      if (one.generation) pauses ? one.generation->pause() : one.generation->resume();
  }
  return unsent;
}

}  // namespace tensora::serve
