#pragma once

#include "tensora/core/tensor.h"

namespace tensora {

/// Sequences of different lengths without padding: `data` holds the rows of step 0 of all
/// sequences, then those of step 1 of the sequences that have one, and so on, the longest sequence
/// first. batch_sizes[t], an int64 tensor on the CPU, is the number of rows of step t.
struct PackedSequence {
  Tensor data, batch_sizes;
  /// Which sequence of the original batch each one is, and the reverse; undefined if the batch was
  /// sorted by length.
  Tensor sorted_indices, unsorted_indices;
};

/// Packs [T, B, …], or [B, T, …] if `batch_first`, of which sequence b has lengths[b] steps. With
/// `enforce_sorted` the lengths must not grow; otherwise the batch is sorted first.
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<int64_t>& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
/// The reverse: the padded batch in its original order, `total_length` steps long if given, and the
/// lengths.
std::tuple<Tensor, Tensor> pad_packed_sequence(const PackedSequence& sequence,
                                               bool batch_first = false, double padding_value = 0,
                                               std::optional<int64_t> total_length = {});
/// Packs sequences [T_b, …].
PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted = true);
/// One batch [T, B, …] of sequences [T_b, …]; T is the length of the longest.
Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first = false,
                    double padding_value = 0);

}  // namespace tensora
