#include "tensora/serve/engine_service.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "tensora/base/check.h"
#include "tensora/serve/answer_queue.h"
#include "tensora/serve/delivery.h"
#include "tensora/serve/embedder.h"
#include "tensora/serve/model_pool.h"
#include "tensora/serve/own_thread.h"
#include "tensora/serve/worker_pool.h"

namespace tensora::serve {
namespace {

// The field of a request that its prompt comes from.
const char* prompt_field(const AnswerRequest& request) {
  return request.request.messages.empty() ? "prompt" : "messages";
}

// What the engine says about a request is meant for who wrote it.
ApiError mistake(const Error& error, const AnswerRequest& request) {
  const std::string_view what = error.what();
  if (what.starts_with("grammar")) return {400, error.what(), "grammar"};
  if (what.starts_with("json") || what.starts_with("schema"))
    return {400, error.what(), "response_format"};
  if (what.starts_with("sampling")) return {400, error.what()};
  return {400, error.what(), prompt_field(request)};
}

class EngineService final : public Service {
 public:
  explicit EngineService(ServiceOptions options)
      : options_(std::move(options)),
        models_(std::move(options_.models), options_.models_max, options_.log),
        queue_({.most = options_.max_queued, .most_per_key = options_.max_queued_per_key}),
        delivery_({.most_unsent = options_.most_unsent,
                   .on_left = [this](const AnswerJob& job, int64_t count) { leave(job, count); },
                   .on_resumed =
                       [this](const AnswerJob& job, int64_t count) {
                         queue_.resume(job.model().backend.get(), job.model().slots, count);
                       },
                   .on_over =
                       [this](const AnswerJob& job) {
                         queue_.forget(job.model().backend.get(), job.key(), job);
                       },
                   // What the largest batches took is not kept for the next ones.
                   .on_idle = [] { empty_cache(); },
                   .idle_seconds = options_.idle_seconds,
                   .has_deadline = options_.deadline > 0,
                   .log = options_.log}),
        starter_([this] {
          begin_own_thread("serve-starter");
          start_queued();
        }) {
    options_.sampling.validate();
    check(options_.max_answers >= 1, "service: expected max_answers of at least 1, got ",
          options_.max_answers);
  }
  ~EngineService() override {
    is_draining_ = true;
    queue_.close();
    starter_.join();
  }

  std::vector<ModelEntry> models() const override { return models_.entries(); }
  ServedModelPtr model(const std::string& name) override { return models_.get(name); }
  ServedModelPtr loaded_model(const std::string& name) const override {
    return models_.loaded(name);
  }
  const llm::SamplingOptions& sampling() const override { return options_.sampling; }
  void answer(AnswerRequest request, std::shared_ptr<AnswerSink> sink) override;
  std::vector<std::vector<float>> embed(const ServedModel& model,
                                        const std::vector<std::vector<int32_t>>& texts,
                                        const Reply& client) override;
  std::vector<double> judge(const ServedModel& model,
                            const std::vector<std::vector<int32_t>>& prompts, int32_t yes,
                            int32_t no, const Reply& client) override;
  ServiceLoad load() const override;
  void drain() override { is_draining_ = true; }
  void end_all(const ApiError& error) override {
    ++endings_;
    delivery_.end_all(error);
  }
  std::string metrics() override;

 private:
  void check_open() const;
  std::function<void()> wanted_check(const Reply& client) const;
  void prepare(const ServedModel& model, AnswerRequest& request) const;
  static void check_prompts(const ServedModel& model, const AnswerRequest& request,
                            const char* field);
  static llm::Generation submit(const AnswerJob& job, size_t answer);
  void start_now(const std::shared_ptr<AnswerJob>& job);
  void start_queued();
  void leave(const AnswerJob& job, int64_t count);
  std::shared_ptr<AnswerMetrics> metrics_of(const ServedModel& model);

  ServiceOptions options_;
  ModelPool models_;
  AnswerQueue queue_;
  std::mutex mutex_;                                               // of what follows
  std::map<std::string, std::shared_ptr<AnswerMetrics>> metrics_;  // by the model's name
  std::atomic<bool> is_draining_ = false;
  std::atomic<uint64_t> endings_ = 0;  // calls of end_all
  Delivery delivery_;
  std::thread starter_;  // the last: it uses all of the above
};

void EngineService::check_open() const {
  if (!is_draining_) return;
  ApiError error(503, "the server is shutting down", {}, "shutting_down");
  error.headers.emplace_back("retry-after", "10");
  throw error;
}

// The request as the engine wants it: tokens, who may share its prefix, how long it may take.
void EngineService::prepare(const ServedModel& model, AnswerRequest& request) const {
  llm::Request& wanted = request.request;
  const char* field = prompt_field(request);
  if (wanted.max_tokens >= 0 && wanted.min_tokens > wanted.max_tokens)
    throw ApiError(400,
                   concat("min_tokens: expected at most max_tokens (", wanted.max_tokens, "), got ",
                          wanted.min_tokens),
                   "min_tokens");
  if (request.prompts.empty()) {
    try {
      request.prompts.push_back(model.backend->tokens_of(wanted));
    } catch (const Error& error) {
      throw mistake(error, request);
    }
  }
  wanted.tokens.clear();
  wanted.prompt.clear();
  wanted.messages.clear();
  check_prompts(model, request, field);
  const auto answers = static_cast<double>(request.prompts.size()) * static_cast<double>(request.n);
  if (request.n < 1 || answers > static_cast<double>(options_.max_answers))
    throw ApiError(400,
                   concat("n: expected from 1 to ", options_.max_answers, " answers in all, got ",
                          request.n, " for each of ", request.prompts.size(), " prompts"),
                   "n");
  // The length keeps apart what a key and a client's own salt might spell together.
  wanted.tenant = concat(request.key.size(), ":", request.key, "/", wanted.tenant);
  wanted.adapter = model.adapter;
  wanted.adapter_scale = model.adapter_scale;
  if (options_.deadline > 0)
    wanted.deadline =
        wanted.deadline > 0 ? std::min(wanted.deadline, options_.deadline) : options_.deadline;
}

void EngineService::check_prompts(const ServedModel& model, const AnswerRequest& request,
                                  const char* field) {
  const int64_t vocabulary = model.info.config.vocab_size;
  for (const int32_t token : request.request.stop_tokens)
    if (token >= vocabulary)
      throw ApiError(
          400,
          concat("stop_token_ids: expected tokens from 0 to ", vocabulary - 1, ", got ", token),
          "stop_token_ids");
  const int64_t context = model.context;
  const int64_t room = context - (request.request.max_tokens == 0 ? 0 : 1);
  for (const std::vector<int32_t>& tokens : request.prompts) {
    const auto size = static_cast<int64_t>(tokens.size());
    if (size == 0) throw ApiError(400, concat(field, ": the prompt has no tokens"), field);
    for (const int32_t token : tokens)
      if (token < 0 || token >= vocabulary)
        throw ApiError(
            400, concat(field, ": expected tokens from 0 to ", vocabulary - 1, ", got ", token),
            field);
    if (size > room && request.request.overflow == llm::Overflow::refuse)
      throw ApiError(400,
                     concat("this model's maximum context length is ", context,
                            " tokens; the prompt has ", size),
                     field, "context_length_exceeded");
  }
}

void EngineService::answer(AnswerRequest request, std::shared_ptr<AnswerSink> sink) {
  const auto came = ServiceClock::now();
  check_open();
  const ServedModelPtr model = models_.get(request.model);
  const llm::TokenizerPtr tokenizer = model->backend->tokenizer();
  if (!tokenizer) throw ApiError(400, "the model has no tokenizer", "model");
  const AnswerFormat format(
      request.request.messages.empty() ? nullptr : model->backend->chat_template(), tokenizer,
      request);
  prepare(*model, request);
  request.request.listener = delivery_.listener();
  const auto job = std::make_shared<AnswerJob>(model, std::move(request), format, std::move(sink),
                                               metrics_of(*model), came);
  const void* lane = model->backend.get();
  const auto count = static_cast<int64_t>(job->size());
  if (queue_.start(lane, model->slots, count)) {
    start_now(job);
  } else {
    queue_.wait(lane, model->slots, job->key(), job, job->size());
    delivery_.add(job);
  }
}

llm::Generation EngineService::submit(const AnswerJob& job, size_t answer) {
  try {
    return job.model().backend->submit(job.request_of(answer));
  } catch (const Error& error) {
    throw mistake(error, job.request());
  }
}

// There is a place for each of the answers.
void EngineService::start_now(const std::shared_ptr<AnswerJob>& job) {
  std::vector<std::pair<llm::Generation, double>> generations;
  try {
    for (size_t i = 0; i < job->size(); ++i) {
      const double waited = job->age();
      generations.emplace_back(submit(*job, i), waited);
    }
  } catch (...) {
    for (size_t i = 0; i < job->size(); ++i) queue_.release(job->model().backend.get());
    throw;
  }
  delivery_.add(job);
  for (size_t i = 0; i < generations.size(); ++i)
    delivery_.start(job, i, std::move(generations[i].first), generations[i].second);
}

// Compiling a grammar may take long: neither the engine nor the delivery waits for it.
void EngineService::start_queued() {
  while (auto next = queue_.next()) {
    const std::shared_ptr<AnswerJob>& job = next->job;
    const void* lane = job->model().backend.get();
    if (job->is_gone()) {
      queue_.release(lane);
      continue;
    }
    try {
      const double waited = job->age();
      delivery_.start(job, next->answer, submit(*job, next->answer), waited);
      continue;
    } catch (const ApiError& error) {
      if (error.code == kTooLate)
        delivery_.end_late(job, next->answer);
      else
        delivery_.fail(job, error);
    } catch (const std::exception& error) {
      if (options_.log) options_.log(concat("a request failed: ", error.what()));
      delivery_.fail(job, ApiError(500, "internal error", {}, "internal_error"));
    }
    queue_.release(lane);
  }
}

void EngineService::leave(const AnswerJob& job, int64_t count) {
  queue_.count_time(job.age());
  for (int64_t i = 0; i < count; ++i) queue_.release(job.model().backend.get());
}

// To be called between texts: throws where nobody waits for the rest.
std::function<void()> EngineService::wanted_check(const Reply& client) const {
  return [this, &client, before = endings_.load()] {
    if (client.is_gone()) throw ApiError(499, "the client has closed the connection");
    if (endings_ != before) throw ApiError(503, "the server is shutting down", {}, "shutting_down");
  };
}

std::vector<std::vector<float>> EngineService::embed(const ServedModel& model,
                                                     const std::vector<std::vector<int32_t>>& texts,
                                                     const Reply& client) {
  check_open();
  const auto check_wanted = wanted_check(client);
  const WorkerPool::Substitute substitute;  // it may take long, and texts go one after another
  std::vector<std::vector<float>> vectors;
  try {
    for (const std::vector<int32_t>& text : texts) {
      check_wanted();
      vectors.push_back(model.embedder->embed(text));
    }
  } catch (const Error& error) {
    throw ApiError(400, error.what(), "input");
  }
  return vectors;
}

std::vector<double> EngineService::judge(const ServedModel& model,
                                         const std::vector<std::vector<int32_t>>& prompts,
                                         int32_t yes, int32_t no, const Reply& client) {
  check_open();
  const auto check_wanted = wanted_check(client);
  const WorkerPool::Substitute substitute;
  return model.embedder->judge(prompts, yes, no, check_wanted);
}

ServiceLoad EngineService::load() const {
  return {.answers = delivery_.answers(),
          .queued = queue_.waiting(),
          .streams = delivery_.streams(),
          .paused = delivery_.paused(),
          .unsent_bytes = delivery_.unsent(),
          .is_ready = models_.is_loaded() && !is_draining_,
          .is_draining = is_draining_};
}

std::shared_ptr<AnswerMetrics> EngineService::metrics_of(const ServedModel& model) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<AnswerMetrics>& metrics = metrics_[model.name];
  if (!metrics) metrics = std::make_shared<AnswerMetrics>(model.name, model.backend->label());
  return metrics;
}

std::string EngineService::metrics() {
  const std::vector<ServedModelPtr> loaded = models_.loaded();
  for (const ServedModelPtr& model : loaded) metrics_of(*model);
  const std::lock_guard lock(mutex_);
  std::vector<ModelGauges> models;
  for (const auto& [name, metrics] : metrics_) {
    const auto found = std::find_if(loaded.begin(), loaded.end(), [&](const ServedModelPtr& model) {
      return model->name == name;
    });
    models.push_back({metrics.get(), found == loaded.end() ? nullptr : found->get()});
  }
  return prometheus_text(load(), models);
}

}  // namespace

std::unique_ptr<Service> make_service(ServiceOptions options) {
  return std::make_unique<EngineService>(std::move(options));
}

}  // namespace tensora::serve
