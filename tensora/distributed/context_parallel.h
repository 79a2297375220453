#pragma once

#include <memory>
#include <optional>

#include "tensora/core/process_group.h"
#include "tensora/core/tensor.h"

namespace tensora::distributed {

// Note [Sequences divided among ranks]
// A sequence is cut into 2 P chunks for P ranks, and rank r has chunks r and 2 P - 1 - r. Under a
// causal mask the later chunk meets many keys and the earlier one few, so that all ranks compute
// equally much.

/// This rank's part of a sequence along `dim`, whose size must be a multiple of 2 P. For tokens,
/// targets, and the tables of positions.
Tensor split_sequence(const Tensor& whole, int64_t dim, ProcessGroup& group);
/// The whole sequence from the parts of all ranks, without a gradient.
Tensor join_sequence(const Tensor& part, int64_t dim, ProcessGroup& group);

struct RingAttentionOptions {
  std::shared_ptr<ProcessGroup> group = nullptr;  // null: the world
  bool is_causal = true;
  std::optional<double> scale = {};  // 1 / sqrt(head size) if not given
};

/// Attention of a sequence that is divided among the ranks of a group as `split_sequence` does it.
/// query: B H T D, key and value: B G T D, of this rank's part; G divides H. The result is that of
/// the rank's queries over the keys of all ranks, laid out like them.
///
/// Keys and values travel round the ring of ranks while the rank computes with those that it has,
/// in backward too, where their gradients travel with them: a rank never has more than two parts of
/// them. Partial results are merged by their log-sum-exp, in float32 at least. All ranks of the
/// group call it in the same order, forward and backward.
Tensor ring_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                      const RingAttentionOptions& options = {});

}  // namespace tensora::distributed
