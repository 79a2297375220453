#pragma once

// Internal header: the parts of a model's parameters that the ranks of a tensor-parallel group
// have.

#include <string>
#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/core/tensor.h"
#include "tensora/models/head_split.h"

namespace tensora::distributed {

/// How a parameter is divided over the ranks of a group.
struct ParameterPart {
  enum class Placement : uint8_t {
    replicated,  // every rank has all of it
    divided,     // each rank has a range of dim `dim`
    first_only,  // rank 0 has it and the others have zeros: their sum is the parameter
  };

  std::string name;
  Tensor parameter;  // this rank's part
  Shape sizes;       // of the whole
  Placement placement = Placement::replicated;
  int dim = 0;
  std::vector<models::IndexRange> held = {};  // divided: by rank; ranges of ranks may overlap

  /// The part of a rank's range that no rank before it has.
  models::IndexRange owned(int rank) const;
  /// Whether an element is on several ranks.
  bool overlaps() const;
};

/// This rank's part of a whole tensor of the parameter's shape, as a tensor of its own.
Tensor part_of_whole(const ParameterPart& part, const Tensor& whole, int rank);
/// The elements of this rank's `local` part that count where a number is summed over the ranks.
/// Undefined: none.
Tensor counted(const ParameterPart& part, const Tensor& local, int rank);
/// The whole tensor from the ranks' parts; all ranks call it.
Tensor gather_whole(const ParameterPart& part, const Tensor& local, ProcessGroup& group);
/// The sum of the ranks' parts where they overlap: makes the gradients of repeated elements equal.
Tensor sum_overlaps(const ParameterPart& part, const Tensor& local, ProcessGroup& group);

}  // namespace tensora::distributed
