#include "tensora/llm/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensora/llm/chat_encoder.h"
#include "tensora/llm/engine_loop.h"
#include "tensora/llm/memory_tracker.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/padded_tokenizer.h"

namespace tensora::llm {
namespace {

// Of the memory that is free when an engine starts, the part that its cache may take unasked.
constexpr double kCacheShare = 0.5;
// So many sequences can be long at once, where memory allows, and each of the others can have so
// many tokens: with many requests, most are short.
constexpr int64_t kLongSequences = 4, kShortSequence = 512;

void check_options(const EngineOptions& options, const ModelConfig& config) {
  check(options.context >= 0, "engine: expected a context of 0 (the model's) or more, got ",
        options.context);
  check(options.block_size >= 1 && options.block_size <= 1 << 20,
        "engine: expected a block size from 1 to ", 1 << 20, ", got ", options.block_size);
  check(options.max_sequences >= 1 && options.max_sequences <= 65536,
        "engine: expected from 1 to 65536 sequences, got ", options.max_sequences);
  check(options.max_batch_tokens >= options.max_sequences && options.max_batch_tokens <= 1 << 20,
        "engine: expected from ", options.max_sequences, " (a token per sequence) to ", 1 << 20,
        " tokens per step, got ", options.max_batch_tokens);
  check(options.cache_tokens >= 0 && options.max_waiting >= 0,
        "engine: cache_tokens and max_waiting must not be negative, got ", options.cache_tokens,
        " and ", options.max_waiting);
  const Speculation& guesses = options.speculation;
  check(guesses.draft_tokens >= 0 && guesses.draft_tokens <= 64,
        "engine: expected from 0 to 64 draft tokens, got ", guesses.draft_tokens);
  check(options.steps_at_once >= 0 && options.steps_at_once <= 64,
        "engine: steps_at_once must be from 0 to 64, got ", options.steps_at_once);
  check(!options.batch_invariant || guesses.draft_tokens == 0,
        "engine: speculation changes the shapes of steps, which batch-invariant mode fixes; switch "
        "one of them off");
  check(!guesses.draft_model || guesses.draft_model->config().vocab_size == config.vocab_size,
        "engine: the draft model must have the model's vocabulary of ", config.vocab_size,
        " tokens, got ",
        guesses.draft_model ? guesses.draft_model->config().vocab_size : int64_t{0});
}

// Zeros become numbers: the model's context and room for a few of them, as far as memory allows.
EngineOptions chosen(EngineOptions options, const Model& model) {
  const ModelConfig& config = model.config();
  check_options(options, config);
  if (!options.cache_dtype) options.cache_dtype = model.cache_dtype();
  const bool may_overlap = options.steps_at_once <= 1 && !options.batch_invariant &&
                           options.speculation.draft_tokens == 0;
  check(may_overlap || !options.overlap.value_or(false),
        "engine: steps overlap one by one, and neither in batch-invariant mode nor with "
        "speculation; switch overlap off");
  if (!options.overlap)
    options.overlap = may_overlap && options.steps_at_once == 0 && !model.device().is_cpu();
  if (options.steps_at_once == 0)
    options.steps_at_once = *options.overlap ? 1 : good_steps_at_once(model.device());
  const int64_t most = model.positions();
  check(options.context <= most || most == 0, "engine: the model reads at most ", most,
        " tokens, got a context of ", options.context);
  const int64_t block = options.block_size;
  const auto whole_blocks = [&](int64_t tokens) { return (tokens + block - 1) / block * block; };
  if (options.context == 0 || options.cache_tokens == 0) {
    const int64_t bytes = PagedCache::bytes_per_block(config, block, *options.cache_dtype);
    const MemoryUsage memory = memory_usage(model.device());
    const auto fits = static_cast<int64_t>(static_cast<double>(memory.free) * kCacheShare /
                                           static_cast<double>(bytes)) *
                      block;
    const int64_t wanted = options.context > 0 ? options.context : most > 0 ? most : 2048;
    if (options.context == 0)
      options.context =
          std::min(wanted, options.cache_tokens > 0 ? options.cache_tokens : std::max(fits, block));
    if (options.cache_tokens == 0) {
      const int64_t longs = std::min(options.max_sequences, kLongSequences);
      const int64_t all =
          whole_blocks(options.context) * longs +
          whole_blocks(std::min(options.context, kShortSequence)) * (options.max_sequences - longs);
      options.cache_tokens = std::max(whole_blocks(options.context), std::min(all, fits));
    }
  }
  options.cache_tokens = whole_blocks(options.cache_tokens);
  check(options.cache_tokens >= whole_blocks(options.context), "engine: a context of ",
        options.context, " tokens needs a cache of as many, got ", options.cache_tokens);
  if (options.batch_invariant)
    options.max_batch_tokens = std::max(block, options.max_batch_tokens / block * block);
  return options;
}

void check_request(const Request& request, const EngineParts& parts) {
  const int given = (!request.tokens.empty() ? 1 : 0) + (!request.prompt.empty() ? 1 : 0) +
                    (!request.messages.empty() ? 1 : 0);
  check(given <= 1, "request: expected one of tokens, prompt and messages, got ", given);
  check(parts.tokenizer || (request.prompt.empty() && request.messages.empty()),
        "request: the engine has no tokenizer; give tokens");
  check(parts.tokenizer || request.stop.empty(),
        "request: the engine has no tokenizer; stop strings need one");
  check(request.max_tokens >= -1, "request: expected max_tokens of -1 (no limit) or more, got ",
        request.max_tokens);
  check(request.min_tokens >= 0 &&
            (request.max_tokens < 0 || request.min_tokens <= request.max_tokens),
        "request: expected min_tokens from 0 to max_tokens, got ", request.min_tokens);
  check(request.keep >= 0, "request: keep must not be negative, got ", request.keep);
  check(std::isfinite(request.deadline) && request.deadline >= 0,
        "request: expected a deadline of 0 (none) or more seconds, got ", request.deadline);
  check(std::isfinite(request.adapter_scale), "request: the adapter's scale must be finite, got ",
        request.adapter_scale);
  check(request.stop.size() <= 64 && request.stop_tokens.size() <= 4096,
        "request: expected at most 64 stop strings and 4096 stop tokens, got ", request.stop.size(),
        " and ", request.stop_tokens.size());
  for (const std::string& stop : request.stop)
    check(!stop.empty() && stop.size() <= 4096,
          "request: a stop string must have from 1 to 4096 bytes, got ", stop.size());
  request.sampling.validate();
}

// Forbids the tokens that end an answer as long as they are not to end it: with a grammar, until
// nothing else is allowed.
void forbid_ends(const Request& request, const EngineParts& parts, Sampler& sampler) {
  const int64_t vocabulary = parts.model->config().vocab_size;
  const auto forbid = [&](int64_t count, std::vector<int32_t> tokens) {
    std::erase_if(tokens, [&](int32_t token) { return token < 0 || token >= vocabulary; });
    sampler.forbid_until(count, std::move(tokens));
  };
  forbid(request.min_tokens, request.stop_tokens);
  if (!parts.tokenizer) return;
  if (!request.ignore_end)
    forbid(request.min_tokens, parts.tokenizer->end_of_generation());
  else if (!request.sampling.grammar.empty() || !request.sampling.json_schema.empty())
    forbid(std::numeric_limits<int64_t>::max(), parts.tokenizer->end_of_generation());
}

}  // namespace

EngineParts load_parts(const ModelFile& file, const LoadOptions& options) {
  EngineParts parts;
  parts.tokenizer = load_tokenizer(file);
  parts.chat = load_chat_template(file, *parts.tokenizer);
  parts.model = load_model(file, options);
  return parts;
}

Engine::Engine(EngineParts parts, const EngineOptions& options) : parts_(std::move(parts)) {
  check(parts_.model != nullptr, "engine: a model is needed");
  options_ = chosen(options, *parts_.model);
  parts_.tokenizer =
      padded_tokenizer(std::move(parts_.tokenizer), parts_.model->config().vocab_size);
  if (parts_.chat && parts_.tokenizer)
    chat_ = std::make_unique<ChatEncoder>(parts_.tokenizer, *parts_.chat);
  loop_ = std::make_unique<Loop>(parts_, options_);
}

Engine::~Engine() {
  // What a fork has of an engine cannot be taken down: its thread is not there to end.
  if (loop_ && loop_->is_forked()) (void)loop_.release();
}

const Model& Engine::model() const { return *parts_.model; }
const TokenizerPtr& Engine::tokenizer() const { return parts_.tokenizer; }
const ChatTemplate* Engine::chat_template() const {
  return chat_ ? &chat_->chat_template() : nullptr;
}
const EngineOptions& Engine::options() const { return options_; }
int64_t Engine::cache_bytes() const { return loop_->cache_bytes(); }
EngineStats Engine::stats() const { return loop_->stats(); }

std::vector<int32_t> Engine::tokens_of(const Request& request) const {
  check_request(request, parts_);
  if (!request.tokens.empty()) return request.tokens;
  check(parts_.tokenizer != nullptr, "request: no tokens are given");
  if (request.messages.empty())
    return parts_.tokenizer->encode(request.prompt,
                                    {.add_special = true, .parse_special = request.parse_special});
  check(chat_ != nullptr, "request: the engine has no chat template; give a prompt");
  return chat_->encode(request.messages, request.chat);
}

// Makes the prompt fit, or says why it does not; returns how many tokens were dropped.
int64_t Engine::fit_prompt(const Request& request, std::vector<int32_t>& tokens) const {
  const auto size = static_cast<int64_t>(tokens.size());
  check(size > 0, "request: the prompt has no tokens, and the model has none to begin with");
  const int64_t vocabulary = parts_.model->config().vocab_size;
  for (const int32_t token : tokens)
    check(token >= 0 && token < vocabulary, "request: expected tokens from 0 to ", vocabulary - 1,
          ", got ", token);
  const int64_t room = options_.context - (request.max_tokens == 0 ? 0 : 1);
  if (size <= room) return 0;
  check(request.overflow != Overflow::refuse, "request: the prompt has ", size,
        " tokens, but the context of ", options_.context, " has room for ", room,
        "; shorten it, choose a larger context, or let it be truncated");
  const int64_t answer = request.max_tokens > 0 ? request.max_tokens : options_.context / 4;
  const int64_t target =
      options_.context - std::max<int64_t>(1, std::min(answer, options_.context / 2));
  const bool has_bos = parts_.tokenizer && parts_.tokenizer->bos() == tokens.front();
  const int64_t keep = std::max<int64_t>(request.keep, has_bos ? 1 : 0);
  check(keep < target, "request: of the ", target,
        " tokens that a truncated prompt may have, keep ", "takes ", keep);
  const auto from = tokens.begin() + static_cast<ptrdiff_t>(keep);
  tokens.erase(from, from + static_cast<ptrdiff_t>(size - target));
  return size - target;
}

Generation Engine::submit(Request request) {
  check(!loop_->is_forked(),
        "engine: it runs in the process that made it, not in one that was forked from that; make "
        "another one");
  std::vector<int32_t> tokens = tokens_of(request);
  const int64_t truncated = fit_prompt(request, tokens);
  check(request.overflow != Overflow::shift || request.keep < options_.context / 2,
        "request: expected keep below half the context of ", options_.context, ", got ",
        request.keep);
  Sampler sampler(request.sampling, parts_.model->config().vocab_size, parts_.tokenizer);
  sampler.accept_prompt(tokens);
  forbid_ends(request, parts_, sampler);
  auto state = std::make_shared<Generation::State>();
  state->doorbell = loop_->doorbell();
  auto job = std::make_unique<Job>(std::move(request), std::move(sampler), state);
  job->scores_prompt = job->request.prompt_logprobs && tokens.size() > 1;
  job->device_chooses = job->sampler.choice().has_value() && !job->scores_prompt;
  if (parts_.tokenizer) {
    // Where no text precedes the answer, it begins without the blank of a first word.
    const bool at_start = std::all_of(tokens.begin(), tokens.end(), [&](int32_t token) {
      return parts_.tokenizer->is_control(token);
    });
    job->decoder.emplace(parts_.tokenizer, StreamOptions{.special = job->request.shows_special,
                                                         .at_start = at_start});
  }
  job->prompt_size = static_cast<int64_t>(tokens.size());
  const int64_t most = job->request.max_tokens;
  job->limit = most < 0 || most > options_.context - job->prompt_size ? options_.context
                                                                      : job->prompt_size + most;
  job->tokens = std::move(tokens);
  job->tokens.reserve(static_cast<size_t>(std::min(job->limit, job->prompt_size + 4096)));
  job->salt = loop_->salt_of(job->request);
  job->adapter = job->request.adapter;
  job->adapter_scale = job->request.adapter_scale;
  job->result.usage.prompt_tokens = job->prompt_size;
  job->result.usage.truncated_tokens = truncated;
  job->submitted = Clock::now();
  loop_->add(std::move(job));
  return Generation(std::move(state));
}

Completion Engine::generate(Request request, const std::function<void(const Piece&)>& on_piece) {
  Generation generation = submit(std::move(request));
  if (on_piece)
    while (const auto piece = generation.next()) on_piece(*piece);
  return generation.wait();
}

}  // namespace tensora::llm
