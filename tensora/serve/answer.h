#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensora/llm/request.h"
#include "tensora/serve/api_error.h"
#include "tensora/serve/http.h"

namespace tensora::serve {

/// The tools of a request, and how the model may call them.
struct ToolUse {
  /// A JSON list in the shape of chat completions: {"type": "function", "function": {"name",
  /// "description", "parameters"}}; empty: no tools.
  std::string tools = {};
  enum class Choice : uint8_t { none, automatic, required, named };
  Choice choice = Choice::automatic;
  std::string name = {};  // of the tool that must be called, where one is named
  bool parallel = true;   // more than one call in an answer
};

/// What a dialect makes of a client's request. The text, the tools' calls and the reasoning of each
/// answer come back as events.
struct AnswerRequest {
  std::string model = {};  // as the client named it; empty: the only one
  /// Messages, prompt or tokens; sampling, with grammar or schema. `tenant` is the client's own
  /// salt of the prefix cache, which the service puts the key in front of.
  llm::Request request = {};
  /// Several prompts instead of the request's own, as tokens. Answers i * n to i * n + n - 1 are
  /// those of prompt i.
  std::vector<std::vector<int32_t>> prompts = {};
  ToolUse tools = {};
  int64_t n = 1;                 // answers of each prompt
  bool splits_reasoning = true;  // what a model thinks is reasoning, not text (messages only)
  bool wants_parts = false;      // a stream; otherwise only the end is of interest
  std::string key = {};          // who asks: queues are fair and prefixes shared within a key
  std::string id = {};           // Exchange::request.id, for the log
};

enum class AnswerEnd : uint8_t { stop, length, tool_calls, deadline, cancelled };

struct Answer;

/// Something new in one of the answers. Events of an answer come in order: begin, then any of text,
/// reasoning, call and arguments, then end. The whole answer is nothing but the events put
/// together.
struct AnswerEvent {
  enum class Kind : uint8_t {
    begin,
    text,       // `text` goes on
    reasoning,  // what the model thinks goes on with `text`
    call,       // a call of the tool `name` begins; it is number `call`
    arguments,  // the arguments of that call, JSON, go on with `text`
    end,        // why is in `end`
  };
  Kind kind = Kind::text;
  int64_t answer = 0;  // from 0 on; set by the service
  std::string text = {};
  int64_t call = 0;
  std::string call_id = {}, name = {};
  int64_t prompt_tokens = 0;  // of `begin`, whose tokens are those of the prompt but the first, if
                              // their logprobs were asked for
  AnswerEnd end = AnswerEnd::stop;
  /// What is known at the end: usage, timings, seed. Null before.
  const Answer* whole = nullptr;
  /// The tokens of this event; their logprobs are NaN unless asked for. All tokens of an answer
  /// come, in order, the one that ends it included.
  std::vector<llm::Sampled> tokens = {};
};

struct Answer {
  std::string text = {}, reasoning = {};
  std::vector<llm::ToolCall> calls = {};
  std::vector<llm::Sampled> text_logprobs = {};    // the tokens of the text, if asked for
  std::vector<llm::Sampled> prompt_logprobs = {};  // those of the prompt but the first
  AnswerEnd end = AnswerEnd::stop;
  int64_t reasoning_tokens = 0;
  llm::Completion completion = {};  // usage, timings, seed, the stop string that was met
};

/// Where events go: a dialect's way of writing them. All functions are called on one thread, one
/// after another, and must not wait. It holds the reply, which the service watches: answers whose
/// client is gone are cancelled, those whose client reads too slowly pause.
class AnswerSink {
 public:
  explicit AnswerSink(ReplyPtr reply) : reply_(std::move(reply)) {}
  AnswerSink(const AnswerSink&) = delete;
  AnswerSink& operator=(const AnswerSink&) = delete;
  virtual ~AnswerSink() = default;

  /// Only where AnswerRequest::wants_parts. Several events of one step may follow each other;
  /// on_flush comes after the last of them, the time to write.
  virtual void on_event(const AnswerEvent& event) = 0;
  virtual void on_flush() = 0;
  /// All answers have ended.
  virtual void on_end(const std::vector<Answer>& answers) = 0;
  /// Instead of on_end; perhaps in the middle of a stream.
  virtual void on_error(const ApiError& error) = 0;

  Reply& reply() { return *reply_; }

 protected:
  /// Writes and empties `out`, which keeps its memory for the next step unless there is much of it.
  void write_out(std::string& out) {
    constexpr size_t kMostKept = 4096;
    if (!out.empty()) reply_->write(out);
    if (out.capacity() > kMostKept)
      out = {};
    else
      out.clear();
  }

 private:
  ReplyPtr reply_;
};

}  // namespace tensora::serve
