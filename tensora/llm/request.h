#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/chat/chat_template.h"
#include "tensora/llm/sampling/sampler.h"

namespace tensora::llm {

class LoraAdapter;

/// Told on the engine's thread that requests have something new: once after each step, however many
/// of the requests that name it have. It must return quickly.
class StepListener {
 public:
  StepListener() = default;
  StepListener(const StepListener&) = delete;
  StepListener& operator=(const StepListener&) = delete;
  virtual ~StepListener() = default;
  virtual void on_step() noexcept = 0;
};

/// What happens to a text that does not fit the context. Nothing is dropped without being told:
/// see Usage.
enum class Overflow : uint8_t {
  refuse,    // too long a prompt is an error; an answer ends where the context is full
  truncate,  // of too long a prompt the middle is dropped; an answer ends where the context is full
  shift,     // as truncate, and an answer goes on: the older half of what follows `keep` is dropped
};
std::string_view name(Overflow policy);

/// A text to be continued: exactly one of `tokens`, `prompt` and `messages`.
struct Request {
  std::vector<int32_t> tokens = {};
  std::string prompt = {};
  std::vector<Message> messages = {};

  SamplingOptions sampling = {};
  int64_t max_tokens = -1;  // of the answer; -1: until the context is full
  /// Before it has this many tokens nothing but max_tokens, the deadline and the end of a grammar
  /// ends the answer: end-of-sequence and stop tokens are not chosen, stop strings are text.
  int64_t min_tokens = 0;
  std::vector<std::string> stop = {};     // texts that end the answer; they are not part of it
  std::vector<int32_t> stop_tokens = {};  // beside the model's own ends
  bool ignore_end = false;                // the model's own ends do not end it
  bool parse_special = false;             // names of control tokens in `prompt` are such tokens
  ChatOptions chat = {};                  // for `messages`

  Overflow overflow = Overflow::refuse;
  int64_t keep = 0;              // tokens at the beginning that are never dropped
  double deadline = 0;           // seconds after which the answer ends as it is; 0: none
  std::string tenant = {};       // cached prefixes are shared with the same tenant only
  bool reuse_prefix = true;      // false: nothing cached is used
  bool prompt_logprobs = false;  // of the prompt's tokens too; nothing cached is used
  bool shows_special = false;    // control tokens are part of the text
  std::shared_ptr<const LoraAdapter> adapter = nullptr;
  double adapter_scale = 1;
  std::shared_ptr<StepListener> listener =
      nullptr;  // for those who do not wait in Generation::next
};

enum class FinishReason : uint8_t {
  stop,       // the model ended it, or a stop string or token was met
  length,     // max_tokens, or the context is full
  cancelled,  // by the caller
  deadline,
};
std::string_view name(FinishReason reason);

struct Usage {
  int64_t prompt_tokens = 0;      // that the model saw
  int64_t completion_tokens = 0;  // the token that ended the answer included
  int64_t cached_tokens = 0;      // of the prompt, not computed again
  /// The first token of the prompt that differs from what was cached behind the same beginning.
  std::optional<int64_t> prefix_broken_at = {};
  int64_t truncated_tokens = 0;                     // of the prompt, dropped because it did not fit
  int64_t shifted_tokens = 0;                       // dropped while answering
  int64_t drafted_tokens = 0, accepted_tokens = 0;  // of speculation
  int64_t preemptions = 0;  // how often others needed its memory and it was read again
};

/// Seconds.
struct Timings {
  double queued = 0;       // until the first token of the prompt was computed
  double prompt = 0;       // reading the prompt
  double first_token = 0;  // since the request came
  double predicted = 0;    // from the first token of the answer to the last
  double total = 0;
  double min_token = 0, max_token = 0;  // between two tokens of the answer
};

/// The end of a request.
struct Completion {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<Sampled> logprobs;         // if asked for: one per token
  std::vector<Sampled> prompt_logprobs;  // if asked for: one per token of the prompt but the first
  FinishReason reason = FinishReason::stop;
  std::string stop;           // the stop string that was met
  bool context_full = false;  // why it ended at its length
  uint64_t seed = 0;
  Usage usage;
  Timings timings;

  double prompt_per_second() const;     // computed tokens of the prompt; 0 if unknown
  double predicted_per_second() const;  // tokens after the first one
  double mean_token() const;            // seconds between two tokens
  /// The usage and timings under the names that llama-server's clients know.
  std::string to_json() const;
};

/// A part of an answer: the text that became certain, and the tokens that were chosen, since the
/// part before.
struct Piece {
  std::string text;
  std::vector<Sampled> tokens;
  std::vector<Sampled> prompt = {};  // Completion::prompt_logprobs, in the first part

  bool is_empty() const { return text.empty() && tokens.empty() && prompt.empty(); }
  /// Keeps its memory.
  void clear() {
    text.clear();
    tokens.clear();
    prompt.clear();
  }
};

}  // namespace tensora::llm
