#pragma once

#include <unordered_map>

#include "tensora/llm/drafter.h"
#include "tensora/llm/sequence_runner.h"

namespace tensora::llm {

/// What a smaller model finds most probable. It has a cache of its own, in which it follows the
/// sequences.
class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(std::shared_ptr<const Model> model, const SessionOptions& options);
  void guess(std::span<Sequence* const> sequences, std::span<const int64_t> most) override;
  void forget(const Sequence& sequence) override;

 private:
  struct Guess {
    Sequence* sequence;
    int64_t slot, most;
    int32_t last;
  };

  std::optional<int64_t> slot_of(const Sequence& sequence);
  int32_t catch_up(const Sequence& sequence, int64_t slot);

  SequenceRunner runner_;
  std::unordered_map<const Sequence*, int64_t> slots_;
  std::vector<int64_t> free_;
};

}  // namespace tensora::llm
