#pragma once

// Internal header: a line search that satisfies the strong Wolfe conditions.

#include <functional>

#include "tensora/core/tensor.h"

namespace tensora::optim {

/// A point on the line: its position, the loss, the gradient, and the slope along the line.
struct LinePoint {
  double t = 0, loss = 0;
  Tensor grad;
  double slope = 0;
};
struct LineSearchResult {
  LinePoint point;
  int64_t evaluations = 0;
};

/// Searches along `direction` from `start`, beginning at `t`; `evaluate` computes a point.
LineSearchResult strong_wolfe(const std::function<LinePoint(double t)>& evaluate,
                              const LinePoint& start, double t, double direction_size,
                              int64_t max_evaluations);

}  // namespace tensora::optim
