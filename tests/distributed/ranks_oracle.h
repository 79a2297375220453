#pragma once

#include <string>

#include "tensora/core/process_group.h"

namespace tensora::testing {

/// Makes every collective with the tensors of FOLDER/in-RANK.safetensors, vectors whose length is a
/// multiple of the ranks, and writes the results to FOLDER/out-RANK.safetensors by the names
/// "CALL.TENSOR". gloo_oracle.py compares them with PyTorch's.
void make_all_calls(ProcessGroup& world, const std::string& folder);

}  // namespace tensora::testing
