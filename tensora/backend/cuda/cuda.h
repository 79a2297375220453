#pragma once

// Everything that a program may use of the CUDA backend beyond tensors on a CUDA device. Programs
// that use more than the functions below link libtensora_cuda. No CUDA header is needed.

#include "tensora/backend/cuda/memory/memory.h"
#include "tensora/backend/cuda/memory/pinned_tensor.h"
#include "tensora/backend/cuda/memory/red_zones.h"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/backend/cuda/runtime/graphed.h"
#include "tensora/backend/cuda/runtime/stream.h"
#include "tensora/core/backend.h"

namespace tensora::cuda {

/// Whether tensors can be put on a CUDA device. Never throws.
inline bool is_available() { return tensora::is_available(DeviceType::cuda); }
/// Why not: the library, the driver, a driver that is too old, or a device is missing; empty if
/// they are there.
inline std::string unavailable_reason() { return tensora::unavailable_reason(DeviceType::cuda); }

}  // namespace tensora::cuda
