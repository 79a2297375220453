#pragma once

#include <string>
#include <vector>

#include "tensora/train/chart.h"

namespace tensora::train {

/// A curve of a panel, with its colour and its place in the legend.
struct Series {
  std::string label;
  const Curve* curve = nullptr;
  int colour = 0;
  bool dashed = false;
};

/// A diagram with axes, a legend and some curves.
struct Panel {
  static constexpr double kWidth = 620, kHeight = 370;
  std::string title;
  std::vector<Series> series;

  /// An SVG group for the place (0, 0).
  std::string svg(const ChartOptions& options) const;
  /// What a page needs to tell the values under the pointer: a JSON object.
  std::string data(const ChartOptions& options) const;
};

/// Text in which <, > and & are written so that XML takes them as text.
std::string xml_text(std::string_view text);

}  // namespace tensora::train
