#pragma once

#include "tensora/llm/batch.h"
#include "tensora/llm/scheduler.h"

namespace tensora::llm {

struct BatchLimits {
  int64_t tokens = 0;     // of a step
  int64_t sequences = 0;  // of a step
  int64_t blocks = 0;     // of a sequence
  int64_t choices = 0;    // tokens of a step that the device chooses
  bool overlaps = false;  // see Note [Overlapped steps]
};

/// What a step that is not over yet leaves to the next one.
struct StepBefore {
  Tensor chosen = {};         // its tokens, on the device
  bool has_advanced = false;  // and it makes its batch that of the next step
};

/// Writes steps as batches of tensors. The memory of these is made once, at addresses that never
/// change, and reaches the device in one copy; a step like the one before makes no tensor anew.
class BatchBuilder {
 public:
  BatchBuilder(const BatchLimits& limits, int64_t block_size, Device device);

  /// Valid until the next call, which must not come before the device has read this batch; where
  /// steps overlap, before it has read the batch before this one. Tokens of sequences that are
  /// pending come from the step before.
  const Batch& build(const Step& step, const StepBefore& before = {});
  /// Becomes Batch::is_abandoned of all batches.
  void set_abandoned(std::function<bool()> is_abandoned) {
    batch_.is_abandoned = std::move(is_abandoned);
  }

 private:
  struct Sizes {
    int64_t tokens = -1, sequences = 0, rows = 0, blocks = 0, choices = 0;
    bool operator==(const Sizes&) const = default;
  };

  bool follows(const Step& step) const;
  Sizes fill(const Step& step);
  int64_t token_of(const Sequence& sequence, int64_t place, int64_t target);
  int64_t fill_choices(const Step& step, int64_t rows);
  void shape(const Sizes& sizes);
  void add_adapters(const Step& step);

  BatchLimits limits_;
  int64_t block_size_;
  Device device_;
  // Where each tensor begins, in bytes; the block table, of which little is used, is the last.
  int64_t tokens_at_, positions_at_, slots_at_, rows_at_, starts_at_, lengths_at_, numbers_at_,
      integers_at_, targets_at_, sources_at_, table_at_;
  Tensor host_, memory_;  // bytes; one and the same on the CPU
  Tensor other_host_;     // the next batch is written here, while the device reads from host_
  Tensor memory_used_;    // the part in use
  bool is_pinned_ = false;
  int64_t unknown_ = 0;         // tokens of this batch that the step before chooses
  std::vector<size_t> widths_;  // how many blocks of each sequence are in the table
  Sizes sizes_;
  Batch batch_;
};

}  // namespace tensora::llm
