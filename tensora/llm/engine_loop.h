#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "tensora/core/queue_mark.h"
#include "tensora/llm/batch_builder.h"
#include "tensora/llm/drafter.h"
#include "tensora/llm/engine.h"
#include "tensora/llm/generation_state.h"
#include "tensora/llm/sampling/stop_strings.h"
#include "tensora/llm/step_graphs.h"
#include "tensora/llm/tokenizer/stream_decoder.h"

namespace tensora::llm {

using Clock = std::chrono::steady_clock;

/// A request inside the engine.
struct Job : Sequence {
  Job(Request wanted, Sampler chooser, std::shared_ptr<Generation::State> shared)
      : request(std::move(wanted)),
        sampler(std::move(chooser)),
        stops(request.stop),
        state(std::move(shared)) {}

  Request request;
  Sampler sampler;
  StopStrings stops;
  std::optional<StreamDecoder> decoder;  // none without a tokenizer
  std::shared_ptr<Generation::State> state;
  Completion result;
  Clock::time_point submitted = {}, started = {}, first = {}, last = {};
  bool has_started = false, has_ended = false, is_paused = false;
  bool device_chooses = false;          // its tokens, where it can; the host otherwise
  std::optional<Sampled> sampled = {};  // by this step's logits, before take_tokens
  std::string rest;                     // of the text, when it has ended
  std::exception_ptr error;             // or why it failed
};

/// Note [Overlapped steps]
/// The device of a step that has ended would wait for the host to look at the tokens and to write
/// the next batch, which with a thousand sequences takes as long as a part of the step. So the
/// host plans and queues the next step while the device computes, before it knows the tokens of
/// that step: these are *pending*, and the device puts them into the next batch by itself (where
/// nothing else changes, paged_advance has made that batch already). Then the host waits for the
/// tokens, gives them out, and plans again. An answer that ends with a pending token has one more
/// token computed in vain; whoever joins does so a step later. Blocks that are given back may
/// still be written by the step under way, but whoever gets them writes in a later one.
///
/// A step whose tokens the host chooses (grammar, logprobs, penalties), and one for which blocks
/// have to be taken from somebody, wait until nothing is pending.

/// A step that the device computes while the host does something else.
struct Flight {
  Step step;
  StepBefore left;                  // to the next step
  Tensor host = {};                 // where the tokens arrive: pinned memory, or undefined
  std::unique_ptr<QueueMark> mark;  // behind their copy
};

/// The engine's thread: takes requests, computes steps, gives out tokens. No lock is held while the
/// model runs.
class Engine::Loop {
 public:
  Loop(const EngineParts& parts, const EngineOptions& options);
  ~Loop();

  /// A fork has no thread of the engine, and locks that nobody will ever open.
  bool is_forked() const { return getpid() != process_; }

  void add(std::unique_ptr<Job> job);
  std::string salt_of(const Request& request);
  EngineStats stats() const;
  int64_t cache_bytes() const { return cache_.bytes(); }
  const std::shared_ptr<Doorbell>& doorbell() const { return doorbell_; }

 private:
  using Jobs = std::vector<std::unique_ptr<Job>>;

  void run();
  bool take_mail();
  void sleep();
  void follow_pauses();
  std::optional<FinishReason> unwanted(const Job& job) const;
  bool is_step_unwanted() const;
  void end_unwanted();
  void step();
  bool can_overlap() const;
  void overlapped_step();
  void launch(Flight& flight);
  void land(Flight& flight);
  void start_slices();
  void fail_step(const Step& step);
  void look_ahead();
  void copy_blocks();
  void compute();
  void choose(StepGraphs::Result result);
  Tensor host_logits(const Tensor& logits) const;
  StepGraphs::Result forward();
  void sample_side_by_side(float* rows, bool by_device);
  void score_prompt(Job& job, const Slice& slice, float* rows);
  void take_tokens(Job& job, const Slice& slice, float* rows, const int64_t* chosen);
  bool take_token(Job& job, Sampled sampled, Clock::time_point now);
  void make_room(Job& job);
  void guess();
  void end(Job& job, FinishReason reason);
  void fail(Job& job, const std::exception_ptr& error);
  void remove_ended();
  void has_news(const Job& job);
  void tell_listeners();
  void count_sequences();
  void count_request(const Usage& usage);
  void count_step(Clock::time_point began);

  const pid_t process_ = getpid();
  EngineParts parts_;
  EngineOptions options_;
  PagedCache cache_;
  BlockManager blocks_;
  Scheduler scheduler_;
  BatchBuilder builder_;
  StepGraphs steps_;
  std::unique_ptr<Drafter> drafter_;
  Jobs jobs_;
  Step step_;
  Flight flights_[2];
  Flight* flight_ = nullptr;     // that is under way
  int64_t steps_at_once_ = 1;    // that the current one stands for
  std::vector<int64_t> chosen_;  // tokens of each row, of all these steps
  Clock::time_point began_ = {};
  std::vector<std::shared_ptr<StepListener>> listeners_;  // to be told after this step

  const std::shared_ptr<Doorbell> doorbell_ = std::make_shared<Doorbell>();
  mutable std::mutex mutex_;  // of what follows
  Jobs inbox_;
  std::map<std::weak_ptr<const LoraAdapter>, uint64_t, std::owner_less<>> adapters_;
  uint64_t last_number_ = 0;  // of adapters and of requests that share nothing
  EngineStats stats_;
  std::atomic<bool> has_mail_ = false, is_closing_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace tensora::llm
