#pragma once

// Internal header: contraction of operands whose dims have labels.

#include <vector>

#include "tensora/core/tensor.h"

namespace tensora {

/// A tensor and a label for each of its dims, all different. Dims of one label have one size.
struct Labelled {
  Tensor tensor;
  std::vector<int> labels;
};

/// The sum of the products over all labels that `output` lacks, with the dims in the order of
/// `output`. Each label of `output` occurs in an operand. The operands are multiplied pair by pair:
/// in the order that needs the fewest multiplications where they are few, otherwise the cheapest
/// pair first.
Tensor contract(std::vector<Labelled> operands, const std::vector<int>& output);

}  // namespace tensora
