#include "tensora/llm/sequence_runner.h"

#include <algorithm>
#include <numeric>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/backend.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

int64_t blocks_of(const SequenceRunnerOptions& options) {
  check(options.sequences > 0 && options.context > 0 && options.block_size > 0 &&
            options.max_batch_tokens > 0,
        "sequence_runner: sequences, context, block_size and max_batch_tokens must be positive, "
        "got ",
        options.sequences, ", ", options.context, ", ", options.block_size, ", ",
        options.max_batch_tokens);
  return (options.context + options.block_size - 1) / options.block_size;
}

}  // namespace

SequenceRunner::SequenceRunner(std::shared_ptr<const Model> model,
                               const SequenceRunnerOptions& options)
    : model_(std::move(model)),
      options_(options),
      cache_(PagedCache::make(
          model_->config(), blocks_of(options) * options.sequences, options.block_size,
          options.cache_dtype.value_or(model_->cache_dtype()), model_->device())),
      builder_({.tokens = options.max_batch_tokens,
                .sequences = options.sequences,
                .blocks = blocks_of(options),
                .choices = options.generates ? options.sequences : 0},
               options.block_size, model_->device()),
      steps_(model_, {.advance = options.generates}) {
  // Every sequence has its own blocks for good.
  sequences_.resize(static_cast<size_t>(options.sequences));
  int32_t first = 0;
  for (Sequence& sequence : sequences_) {
    sequence.blocks.list.resize(static_cast<size_t>(blocks_of(options)));
    std::iota(sequence.blocks.list.begin(), sequence.blocks.list.end(), first);
    first += static_cast<int32_t>(blocks_of(options));
  }
}

const Batch& SequenceRunner::prepare(std::span<const Part> parts, Rows rows) {
  // The last batch's place is written to anew.
  if (!model_->device().is_cpu()) synchronize(model_->device());
  step_.slices.clear();
  step_.tokens = 0;
  for (const Part& part : parts) {
    check(part.sequence >= 0 && part.sequence < options_.sequences,
          "sequence_runner: expected a sequence from 0 to ", options_.sequences - 1, ", got ",
          part.sequence);
    Sequence& sequence = sequences_[static_cast<size_t>(part.sequence)];
    const auto count = static_cast<int64_t>(part.tokens.size());
    check(sequence.size() + count <= options_.context, "sequence_runner: ", sequence.size() + count,
          " tokens do not fit the context of ", options_.context);
    step_.slices.push_back({&sequence, sequence.size(), count,
                            rows == Rows::none   ? 0
                            : rows == Rows::last ? 1
                                                 : count});
    step_.tokens += count;
  }
  check(step_.tokens > 0 && step_.tokens <= options_.max_batch_tokens,
        "sequence_runner: expected from 1 to ", options_.max_batch_tokens,
        " tokens in a step, got ", step_.tokens);
  for (const Part& part : parts) {
    Sequence& sequence = sequences_[static_cast<size_t>(part.sequence)];
    sequence.tokens.insert(sequence.tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  return builder_.build(step_);
}

Tensor SequenceRunner::forward(std::span<const Part> parts, Rows rows) {
  const inference_mode guard;
  return steps_.forward(prepare(parts, rows), cache_).logits;
}

Tensor SequenceRunner::hidden(std::span<const Part> parts, Rows rows) {
  const inference_mode guard;
  return model_->hidden(prepare(parts, rows), cache_);
}

std::vector<int32_t> SequenceRunner::generate(std::span<const int32_t> first, int64_t count) {
  check(options_.generates && static_cast<int64_t>(first.size()) == options_.sequences && count > 0,
        "sequence_runner: generate expects the option `generates`, a token for each of ",
        options_.sequences, " sequences and a positive count, got ", first.size(), " tokens and ",
        count);
  const inference_mode guard;
  std::vector<Part> parts;
  for (int64_t i = 0; i < options_.sequences; ++i) {
    Sequence& sequence = sequences_[static_cast<size_t>(i)];
    check(sequence.size() + count <= options_.context, "sequence_runner: ", sequence.size() + count,
          " tokens do not fit the context of ", options_.context);
    sequence.choices = {TokenChoice{}};
    sequence.ahead = count - 1;
    parts.push_back({i, first.subspan(static_cast<size_t>(i), 1)});
  }
  const Batch& batch = prepare(parts, Rows::last);
  std::vector<Tensor> steps;
  for (int64_t i = 0; i < count; ++i) {
    const Tensor tokens = steps_.forward(batch, cache_).tokens;
    steps.push_back(i + 1 < count ? tokens.clone() : tokens);  // the next step overwrites it
  }
  const auto chosen = to_vector<int64_t>(stack(steps, 1));
  std::vector<int32_t> next;
  auto token = chosen.begin();
  for (Sequence& sequence : sequences_) {
    sequence.tokens.insert(sequence.tokens.end(), token, token + (count - 1));
    token += count;
    next.push_back(static_cast<int32_t>(token[-1]));
    sequence.choices.clear();
    sequence.ahead = 0;
  }
  return next;
}

Tensor SequenceRunner::read(int64_t sequence, std::span<const int32_t> tokens) {
  Tensor logits;
  while (!tokens.empty()) {
    const size_t count = std::min(tokens.size(), static_cast<size_t>(options_.max_batch_tokens));
    const Part part{sequence, tokens.first(count)};
    tokens = tokens.subspan(count);
    logits = forward({&part, 1}, tokens.empty() ? Rows::last : Rows::none);
  }
  return logits;
}

void SequenceRunner::truncate(int64_t sequence, int64_t length) {
  auto& tokens = sequences_[static_cast<size_t>(sequence)].tokens;
  if (length < static_cast<int64_t>(tokens.size())) tokens.resize(static_cast<size_t>(length));
}

void SequenceRunner::clear() {
  for (Sequence& sequence : sequences_) sequence.tokens.clear();
}

int64_t SequenceRunner::length(int64_t sequence) const {
  return sequences_[static_cast<size_t>(sequence)].size();
}

std::span<const int32_t> SequenceRunner::tokens(int64_t sequence) const {
  return sequences_[static_cast<size_t>(sequence)].tokens;
}

}  // namespace tensora::llm
