#pragma once

#include <memory>
#include <vector>

#include "tensora/llm/engine.h"
#include "tensora/llm/scheduler.h"

namespace tensora::llm {

/// Guesses how sequences go on, for the model to check.
class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Sets the draft of each sequence, at most `most[i]` tokens of sequence i.
  virtual void guess(std::span<Sequence* const> sequences, std::span<const int64_t> most) = 0;
  /// The sequence has ended.
  virtual void forget(const Sequence& sequence) = 0;
};

/// What followed when the last tokens were last seen in the sequence.
class NgramDrafter final : public Drafter {
 public:
  explicit NgramDrafter(const Speculation& options);
  void guess(std::span<Sequence* const> sequences, std::span<const int64_t> most) override;
  void forget(const Sequence&) override {}

 private:
  Speculation options_;
};

/// Null if speculation is off.
std::unique_ptr<Drafter> make_drafter(const EngineOptions& options);

}  // namespace tensora::llm
