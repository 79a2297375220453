#pragma once

#include "tensora/data/dataset.h"

namespace tensora::data {

/// Puts examples together: tensor k of the batch stacks tensor k of every example. Throws where
/// two examples differ in their number of tensors, in shape or dtype, and says which two;
/// `indices` are their numbers in the data set, for that message.
Batch default_collate(std::span<const Example> examples, std::span<const int64_t> indices,
                      NewTensor new_tensor);
Batch default_collate(std::span<const Example> examples);

/// Row i of the result is row `rows[i]` of `source`; for a source on the host it is written into a
/// tensor that `new_tensor` makes.
Tensor gather_rows(const Tensor& source, std::span<const int64_t> rows, NewTensor new_tensor);

}  // namespace tensora::data
