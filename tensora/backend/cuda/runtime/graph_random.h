#pragma once

#include "tensora/backend/cuda/runtime/capture.h"

namespace tensora::cuda {

/// Queues the write of `value` to device memory on the current stream.
void set_replay_random(int device, ReplayRandom* to, ReplayRandom value);

}  // namespace tensora::cuda
