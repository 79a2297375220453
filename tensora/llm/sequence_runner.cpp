#include "tensora/llm/sequence_runner.h"

#include <algorithm>
#include <numeric>

#include "tensora/autograd/grad_mode.h"
#include "tensora/core/backend.h"
#include "tensora/ops.h"

namespace tensora::llm {
namespace {

int64_t blocks_of(const Model& model, const SessionOptions& options) {
  check(options.sequences > 0 && options.context > 0 && options.block_size > 0 &&
            options.max_batch_tokens > 0,
        "sequence session: sequences, context, block_size and max_batch_tokens must be positive, "
        "got ",
        options.sequences, ", ", options.context, ", ", options.block_size, ", ",
        options.max_batch_tokens);
  check(options.context <= model.positions() || model.positions() == 0,
        "sequence session: the model reads at most ", model.positions(),
        " tokens, got a context of ", options.context);
  return (options.context + options.block_size - 1) / options.block_size;
}

}  // namespace

SequenceRunner::SequenceRunner(std::shared_ptr<const Model> model, const SessionOptions& options)
    : SequenceSession(options),
      model_(std::move(model)),
      cache_(PagedCache::make(
          model_->config(), blocks_of(*model_, options) * options.sequences, options.block_size,
          options.cache_dtype.value_or(model_->cache_dtype()), model_->device())),
      builder_({.tokens = options.max_batch_tokens,
                .sequences = options.sequences,
                .blocks = blocks_of(*model_, options),
                .choices = options.generates ? options.sequences : 0},
               options.block_size, model_->device()),
      steps_(model_, {.advance = options.generates, .record = options.graphs}) {
  // Every sequence has its own blocks for good.
  sequences_.resize(static_cast<size_t>(options.sequences));
  int32_t first = 0;
  for (Sequence& sequence : sequences_) {
    sequence.blocks.list.resize(static_cast<size_t>(blocks_of(*model_, options)));
    std::iota(sequence.blocks.list.begin(), sequence.blocks.list.end(), first);
    first += static_cast<int32_t>(blocks_of(*model_, options));
  }
}

const Batch& SequenceRunner::prepare(std::span<const Part> parts, Rows rows) {
  // The last batch's place is written to anew.
  if (!model_->device().is_cpu()) synchronize();
  step_.slices.clear();
  step_.tokens = 0;
  for (const Part& part : parts) {
    check(part.sequence >= 0 && part.sequence < options().sequences,
          "sequence session: expected a sequence from 0 to ", options().sequences - 1, ", got ",
          part.sequence);
    Sequence& sequence = sequences_[static_cast<size_t>(part.sequence)];
    const auto count = static_cast<int64_t>(part.tokens.size());
    check(sequence.size() + count <= options().context,
          "sequence session: ", sequence.size() + count, " tokens do not fit the context of ",
          options().context);
    step_.slices.push_back({&sequence, sequence.size(), count,
                            rows == Rows::none   ? 0
                            : rows == Rows::last ? 1
                                                 : count});
    step_.tokens += count;
  }
  check(step_.tokens > 0 && step_.tokens <= options().max_batch_tokens,
        "sequence session: expected from 1 to ", options().max_batch_tokens,
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
  check_generate(first, count);
  const inference_mode guard;
  std::vector<Part> parts;
  for (int64_t i = 0; i < options().sequences; ++i) {
    Sequence& sequence = sequences_[static_cast<size_t>(i)];
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

void SequenceRunner::copy(int64_t from, int64_t to, std::span<const int32_t> tokens) {
  const Sequence& source = sequences_[static_cast<size_t>(from)];
  Sequence& target = sequences_[static_cast<size_t>(to)];
  check(std::equal(tokens.begin(), tokens.end(), source.tokens.begin(), source.tokens.end()) &&
            target.tokens.empty(),
        "sequence session: copy expects the tokens of sequence ", from, " and an empty sequence ",
        to);
  // The blocks of a sequence lie side by side.
  const auto used = (tokens.size() + static_cast<size_t>(options().block_size) - 1) /
                    static_cast<size_t>(options().block_size);
  for (const std::vector<Tensor>* part : {&cache_.keys, &cache_.values})
    for (const Tensor& layer : *part) {
      const size_t block = layer.nbytes() / static_cast<size_t>(cache_.num_blocks());
      char* data = static_cast<char*>(layer.data_ptr());
      copy_bytes(data + static_cast<size_t>(target.blocks.list[0]) * block, layer.device(),
                 data + static_cast<size_t>(source.blocks.list[0]) * block, layer.device(),
                 used * block);
    }
  target.tokens = source.tokens;
}

void SequenceRunner::truncate(int64_t sequence, int64_t length) {
  auto& tokens = sequences_[static_cast<size_t>(sequence)].tokens;
  if (length < static_cast<int64_t>(tokens.size())) tokens.resize(static_cast<size_t>(length));
}

int64_t SequenceRunner::length(int64_t sequence) const {
  return sequences_[static_cast<size_t>(sequence)].size();
}

void SequenceRunner::synchronize() { tensora::synchronize(model_->device()); }

std::span<const int32_t> SequenceRunner::tokens(int64_t sequence) const {
  return sequences_[static_cast<size_t>(sequence)].tokens;
}

}  // namespace tensora::llm
