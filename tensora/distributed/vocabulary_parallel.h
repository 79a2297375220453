#pragma once

// An embedding and the last step of a language model whose vocabulary is divided over ranks.

#include <memory>

#include "tensora/core/process_group.h"
#include "tensora/core/tensor.h"
#include "tensora/models/head_split.h"

namespace tensora::distributed {

/// The rows of a vocabulary that each rank of a group has: balanced parts.
struct VocabularyPart {
  int64_t size = 0;  // of the whole vocabulary
  std::shared_ptr<ProcessGroup> group;

  models::IndexRange rows(int rank) const {
    return models::balanced_part(size, group->size(), rank);
  }
  models::IndexRange rows() const { return rows(group->rank()); }
};

struct VocabularyLossOptions {
  int64_t ignore_index = -100;
  /// How many bytes of scores may be in memory at a time.
  int64_t chunk_bytes = int64_t{512} << 20;
};

/// nn::linear_cross_entropy with this rank's rows of the weight: the mean cross-entropy, the same
/// number on all ranks. The scores are never gathered: for each position the ranks exchange a
/// maximum, a sum of exponentials and the score of the target. input: … D, the same on all ranks;
/// its gradient is partial: the sum over the ranks is that of one process. A gradient of the
/// gradient does not exist.
Tensor vocabulary_cross_entropy(const Tensor& input, const Tensor& weight, const Tensor& target,
                                const VocabularyPart& vocabulary,
                                const VocabularyLossOptions& options = {});

/// Puts the ranks' scores (… rows) together to … size on all ranks. The gradient of the result is
/// taken to be the same on all ranks: each keeps its own columns of it.
Tensor gather_vocabulary(const Tensor& scores, const VocabularyPart& vocabulary);

/// Tokens as rows of this rank's part of an embedding. What the rows of absent tokens give is to be
/// replaced by zeros; the sum over the ranks is then the embedding.
struct LocalTokens {
  Tensor rows;    // of this rank's part; 0 where the token is another rank's
  Tensor absent;  // bool, tokens' shape: whether it is another rank's
};
LocalTokens local_tokens(const Tensor& tokens, const VocabularyPart& vocabulary);

}  // namespace tensora::distributed
