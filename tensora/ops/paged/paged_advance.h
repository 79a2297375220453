#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// Makes a batch of S sequences, which were continued by one token each, the batch of the next
/// step, without the host: `tokens` become `chosen` (-1 counts as token 0), positions and lengths
/// grow by one, slots follow from the block table (see paged_attention; -1 beyond it), and the last
/// column of `choices`, the numbers of the draws (see sample_tokens), grows by one. Tokens,
/// positions, slots and `chosen` are int64 [S], lengths int32 [S], choices int64 [S, 3], the table
/// int32. All but `chosen` and the table are written in place, and must be contiguous. Returns
/// `tokens`.
Tensor paged_advance(const Tensor& tokens, const Tensor& positions, const Tensor& slots,
                     const Tensor& lengths, const Tensor& choices, const Tensor& chosen,
                     const Tensor& block_table, int64_t block_size);

}  // namespace tensora
