#include "tensora/llm/model_drafter.h"

#include <algorithm>

#include "tensora/ops.h"

namespace tensora::llm {

ModelDrafter::ModelDrafter(std::shared_ptr<const Model> model, const SessionOptions& options)
    : runner_(std::move(model), options) {
  for (int64_t slot = options.sequences; slot-- > 0;) free_.push_back(slot);
}

// None where there is no room for the sequence: it goes on without guesses.
std::optional<int64_t> ModelDrafter::slot_of(const Sequence& sequence) {
  if (const auto found = slots_.find(&sequence); found != slots_.end()) return found->second;
  if (free_.empty()) return std::nullopt;
  const int64_t slot = free_.back();
  free_.pop_back();
  runner_.truncate(slot, 0);
  slots_[&sequence] = slot;
  return slot;
}

void ModelDrafter::forget(const Sequence& sequence) {
  const auto found = slots_.find(&sequence);
  if (found == slots_.end()) return;
  free_.push_back(found->second);
  slots_.erase(found);
}

// Reads what the sequence has beyond what was guessed right, but for its last token.
int32_t ModelDrafter::catch_up(const Sequence& sequence, int64_t slot) {
  const auto known = runner_.tokens(slot);
  const auto wanted = std::span(sequence.tokens).first(sequence.tokens.size() - 1);
  const size_t most = std::min(known.size(), wanted.size());
  const auto same = static_cast<size_t>(
      std::mismatch(known.begin(), known.begin() + static_cast<ptrdiff_t>(most), wanted.begin())
          .first -
      known.begin());
  runner_.truncate(slot, static_cast<int64_t>(same));
  runner_.read(slot, wanted.subspan(same));
  return sequence.tokens.back();
}

void ModelDrafter::guess(std::span<Sequence* const> sequences, std::span<const int64_t> most) {
  std::vector<Guess> guesses;
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& sequence = *sequences[i];
    sequence.draft.clear();
    const int64_t room = std::min(most[i], runner_.options().context - sequence.size());
    if (room <= 0) continue;
    if (const auto slot = slot_of(sequence))
      guesses.push_back({&sequence, *slot, room, catch_up(sequence, *slot)});
  }
  while (!guesses.empty()) {
    std::vector<SequenceRunner::Part> parts;
    for (const Guess& guess : guesses) parts.push_back({guess.slot, {&guess.last, 1}});
    const auto best =
        to_vector<int64_t>(argmax(runner_.forward(parts, SequenceRunner::Rows::last), 1));
    for (size_t i = 0; i < guesses.size(); ++i) {
      guesses[i].last = static_cast<int32_t>(best[i]);
      guesses[i].sequence->draft.push_back(guesses[i].last);
    }
    std::erase_if(guesses, [](const Guess& guess) {
      return static_cast<int64_t>(guess.sequence->draft.size()) >= guess.most;
    });
  }
}

}  // namespace tensora::llm
