#pragma once

// Internal header: the op behind paged_advance.

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// (tokens, positions, slots, lengths, choices, chosen, block_table) -> the first five, in place as
/// a rule. All inputs are contiguous.
struct PagedAdvanceAttrs {
  static constexpr size_t kTokens = 0, kPositions = 1, kSlots = 2, kLengths = 3, kChoices = 4,
                          kChosen = 5, kTable = 6;
  int64_t block_size = 1;
};
extern OpDef<PagedAdvanceAttrs> paged_advance_op;

}  // namespace tensora
