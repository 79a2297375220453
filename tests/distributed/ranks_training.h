#pragma once

#include <string>

#include "tensora/core/process_group.h"

namespace tensora::testing {

/// Trains a small model on the ranks of the world, at every ZeRO stage and with tensor parallelism,
/// and returns a line for each with a hash of the final parameters: the same text for equal bits.
std::string train_all_ways(ProcessGroup& world);

}  // namespace tensora::testing
