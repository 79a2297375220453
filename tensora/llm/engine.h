#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensora/llm/block_manager.h"
#include "tensora/llm/generation.h"
#include "tensora/llm/model.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

class ChatEncoder;

/// Tokens are guessed and then checked by the model, several in one step. The answers are the same
/// as without: a guess counts only if it is what the sampler chooses.
struct Speculation {
  int64_t draft_tokens = 0;  // at most so many guesses per step; 0: off
  /// Guesses: what followed the last occurrence of the last tokens, at most so many of them and at
  /// least `min_ngram`.
  int64_t max_ngram = 4, min_ngram = 2;
  /// Guesses by a smaller model with the same vocabulary instead.
  std::shared_ptr<const Model> draft_model = nullptr;
};

struct EngineOptions {
  int64_t context = 0;        // tokens of one sequence; 0: the model's, as far as memory allows
  int64_t max_sequences = 8;  // computed together; more wait
  int64_t max_batch_tokens = 512;  // of a step; longer prompts are read in parts
  int64_t max_waiting = 0;         // more are refused; 0: no limit
  int64_t block_size = 32;         // tokens of a block of the cache
  int64_t cache_tokens = 0;        // in all; 0: a context, or several as far as memory allows
  std::optional<DType> cache_dtype = {};  // the model's choice unless given
  bool share_prefixes = true;             // see Note [Prefixes in blocks]
  bool batch_invariant = false;           // see Note [Batch invariance]
  /// See Note [Several steps at once]; 0: as many as are good on the model's device.
  int64_t steps_at_once = 0;
  /// See Note [Overlapped steps]; unset: where the device works beside the host, and neither
  /// speculation nor the two options before need the tokens first.
  std::optional<bool> overlap = {};
  bool graphs = true;  // see Note [Steps as graphs]
  Speculation speculation = {};
};

/// What the engine did and does.
struct EngineStats {
  int64_t running = 0, waiting = 0;
  int64_t requests = 0;  // that have ended
  int64_t steps = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  int64_t drafted_tokens = 0, accepted_tokens = 0, preemptions = 0;
  double busy_seconds = 0;  // in steps
  BlockUse blocks;
};

/// What an engine runs. Without a tokenizer it takes and gives tokens only.
struct EngineParts {
  std::shared_ptr<const Model> model;
  TokenizerPtr tokenizer = nullptr;
  std::optional<ChatTemplate> chat = {};
};

/// The template of a model on disk; ChatML, with a notice, where it has none.
ChatTemplate load_chat_template(const ModelFile& file, const Tokenizer& tokenizer);
/// The parts of a model on disk: its weights, its tokenizer, its chat template.
EngineParts load_parts(const ModelFile& file, const LoadOptions& options = {});

/// Runs a model for many requests at once, on a thread of its own. All functions may be called from
/// any thread.
///
///     Engine engine(load_parts(ModelFile::open("model.gguf")));
///     Completion answer = engine.generate({.prompt = "Once upon a time", .max_tokens = 100});
///
///     Generation story = engine.submit({.messages = {{"user", "Tell me a story"}}});
///     while (auto piece = story.next()) std::cout << piece->text << std::flush;
class Engine {
 public:
  explicit Engine(EngineParts parts, const EngineOptions& options = {});
  /// Requests that are not done end with an error.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes a request. Throws for a mistake in it, a prompt that does not fit, or a full queue.
  Generation submit(Request request);
  /// Waits for the answer. Its parts are given to `on_piece`, on this thread, as they come; if that
  /// throws, the request is cancelled.
  Completion generate(Request request, const std::function<void(const Piece&)>& on_piece = nullptr);
  /// The tokens that the model would see for a request, before anything is dropped.
  std::vector<int32_t> tokens_of(const Request& request) const;

  const Model& model() const;
  const TokenizerPtr& tokenizer() const;
  const ChatTemplate* chat_template() const;
  /// With the numbers that were chosen for zeros.
  const EngineOptions& options() const;
  /// Bytes of the paged cache.
  int64_t cache_bytes() const;
  EngineStats stats() const;

 private:
  class Loop;
  int64_t fit_prompt(const Request& request, std::vector<int32_t>& tokens) const;

  EngineParts parts_;
  EngineOptions options_;
  std::unique_ptr<ChatEncoder> chat_;
  std::unique_ptr<Loop> loop_;
};

}  // namespace tensora::llm
