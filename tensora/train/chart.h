#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensora/train/run_history.h"

namespace tensora::train {

struct ChartOptions {
  std::string title = "Training";
  /// Curves with many points are drawn faintly and, on top, as a moving average in which the past
  /// has this weight; 0: not at all.
  double smoothing = 0.9;
  bool log_y = false;
  std::string x_label = "step";
};

/// The curves of one or several runs as a picture: a panel for each group of figures ("loss/train"
/// and "loss/val" are one), a colour for each run. Light or dark as the viewer's settings are.
std::string chart_svg(std::span<const RunHistory> runs, const ChartOptions& options = {});
/// The same as a page that needs nothing else; pointing at a panel shows its values.
std::string chart_html(std::span<const RunHistory> runs, const ChartOptions& options = {});

/// Round numbers that divide [low, high] into about `count` parts.
std::vector<double> nice_ticks(double low, double high, int count);

}  // namespace tensora::train
