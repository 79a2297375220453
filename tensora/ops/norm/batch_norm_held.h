#pragma once

// Internal header

#include <string_view>

#include "tensora/core/dtype.h"

namespace tensora::cuda {

struct ApplyParams;
struct ChannelGrid;

/// The moments and the results of batch_norm at once, for devices that run *_sm90a.cu: channels
/// that lie in planes and fit the shared memory of a cluster. `params.mean` and `params.variance`
/// are not used; both become outputs. False, and nothing is queued, where it does not apply. See
/// Note [Channels held by a cluster].
bool normalise_held_channels(std::string_view op, int device, const ChannelGrid& grid,
                             const ApplyParams& params, float* mean, float* variance);

}  // namespace tensora::cuda
