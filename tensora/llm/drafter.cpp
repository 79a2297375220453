#include "tensora/llm/drafter.h"

#include <algorithm>

#include "tensora/llm/model_drafter.h"

namespace tensora::llm {
namespace {

// Looking back further costs more than a good guess gains.
constexpr size_t kFarthest = 16384;

void guess_one(Sequence& sequence, const Speculation& options, int64_t most) {
  sequence.draft.clear();
  const auto& tokens = sequence.tokens;
  const size_t size = tokens.size();
  const size_t begin = size > kFarthest ? size - kFarthest : 0;
  for (int64_t n = options.max_ngram; n >= options.min_ngram; --n) {
    const auto length = static_cast<size_t>(n);
    if (size < begin + length + 1) continue;
    const int32_t* tail = tokens.data() + size - length;
    for (size_t at = size - length; at-- > begin;) {
      if (tokens[at] != *tail || !std::equal(tail, tail + n, tokens.data() + at)) continue;
      const size_t from = at + length;
      const size_t count = std::min(static_cast<size_t>(most), size - from);
      sequence.draft.assign(tokens.begin() + static_cast<ptrdiff_t>(from),
                            tokens.begin() + static_cast<ptrdiff_t>(from + count));
      return;
    }
  }
}

}  // namespace

NgramDrafter::NgramDrafter(const Speculation& options) : options_(options) {
  check(options.min_ngram >= 1 && options.max_ngram >= options.min_ngram && options.max_ngram <= 64,
        "speculation: expected 1 <= min_ngram <= max_ngram <= 64, got ", options.min_ngram, " and ",
        options.max_ngram);
}

void NgramDrafter::guess(std::span<Sequence* const> sequences, std::span<const int64_t> most) {
  for (size_t i = 0; i < sequences.size(); ++i) guess_one(*sequences[i], options_, most[i]);
}

std::unique_ptr<Drafter> make_drafter(const EngineOptions& options) {
  const Speculation& wanted = options.speculation;
  if (wanted.draft_tokens == 0) return nullptr;
  if (!wanted.draft_model) return std::make_unique<NgramDrafter>(wanted);
  return std::make_unique<ModelDrafter>(
      wanted.draft_model,
      SessionOptions{.sequences = options.max_sequences,
                     .context = std::min(options.context, wanted.draft_model->positions()),
                     .max_batch_tokens = options.max_batch_tokens,
                     .block_size = options.block_size});
}

}  // namespace tensora::llm
