#pragma once

#include <span>
#include <string>

#include "tensora/distributed/scale.h"

namespace tensora::cli {

/// Predictions as a table for people.
std::string scale_table(std::span<const distributed::ScalePrediction> predictions);
/// The same with every figure, in seconds and bytes.
std::string scale_json(const distributed::ScaleJob& job, const distributed::ScaleMachine& machine,
                       std::span<const distributed::ScalePrediction> predictions);
/// Tokens per second per rank over the number of ranks, with their intervals. A curve for each
/// layout, data-parallel ranks aside.
std::string scale_svg(const std::string& title,
                      std::span<const distributed::ScalePrediction> predictions);

}  // namespace tensora::cli
