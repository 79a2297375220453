#pragma once

// Internal header: what makes a LLaMA with divided parameters compute what the whole one computes.

#include <memory>
#include <vector>

#include "tensora/distributed/parameter_part.h"
#include "tensora/models/llama.h"

namespace tensora::distributed {

/// Shared by the hooks of one model.
struct TensorParallelState {
  std::shared_ptr<ProcessGroup> group;
  bool sequence_parallel = false;
  bool suspended = false;            // the parameters are whole: the hooks do nothing
  bool sequence_is_divided = false;  // in the forward under way
};

/// Registers the hooks, which keep the state alive.
std::shared_ptr<TensorParallelState> attach_tensor_parallel(models::LLaMA& model,
                                                            const std::vector<ParameterPart>& parts,
                                                            std::shared_ptr<ProcessGroup> group,
                                                            bool sequence_parallel);

}  // namespace tensora::distributed
