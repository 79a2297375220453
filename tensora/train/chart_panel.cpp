#include "tensora/train/chart_panel.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "tensora/base/check.h"
#include "tensora/train/jsonl_logger.h"
#include "tensora/train/number_text.h"
#include "tensora/train/progress_bar.h"

namespace tensora::train {
namespace {

constexpr double kLeft = 64, kRight = 20, kBottom = 46, kTitle = 30, kLegendLine = 20;
constexpr size_t kFewPoints = 60;  // such a curve is not smoothed; its points are shown

// A length in the picture: a tenth of a pixel is enough.
std::string at(double value) {
  char buffer[32];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed, 1);
  std::string text(buffer, error == std::errc() ? end : buffer);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

// "1.5M", "20k", "0.001"
std::string tick_text(double value) {
  const double size = std::fabs(value);
  if (size >= 1e9) return figure_text(value / 1e9) + "G";
  if (size >= 1e6) return figure_text(value / 1e6) + "M";
  if (size >= 1e4) return figure_text(value / 1e3) + "k";
  return value == 0 ? "0" : figure_text(value);
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

// A moving average without the bias that its start from nothing would have.
std::vector<double> smoothed(const std::vector<double>& values, double weight) {
  std::vector<double> out;
  double sum = 0, share = 0;
  for (const double value : values) {
    if (std::isfinite(value)) {
      sum = weight * sum + (1 - weight) * value;
      share = weight * share + (1 - weight);
    }
    out.push_back(share > 0 ? sum / share : NAN);
  }
  return out;
}

std::vector<double> log_ticks(const Range& range) {
  std::vector<double> out;
  const double decades = std::log10(range.high / range.low);
  for (int power = static_cast<int>(std::floor(std::log10(range.low))); power < 300; ++power) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double value = digit * std::pow(10, power);
      if (value > range.high * (1 + 1e-9)) return out;
      if (value >= range.low * (1 - 1e-9) && (digit == 1 || decades < 2.5)) out.push_back(value);
    }
  }
  return out;
}

// Maps steps and values to places in the picture.
class Axes {
 public:
  Axes(const Panel& panel, const ChartOptions& options, double top)
      : log_(options.log_y), top_(top), x_label_(options.x_label) {
    Range y;
    for (const Series& series : panel.series) {
      for (const double step : series.curve->steps) x_.include(step);
      for (const double value : series.curve->values)
        if (!log_ || value > 0) y.include(value);
    }
    if (x_.empty()) x_ = {0, 1};
    if (x_.low == x_.high) x_ = {x_.low - 0.5, x_.high + 0.5};
    if (y.empty()) y = log_ ? Range{1, 10} : Range{0, 1};
    if (y.low == y.high) {
      const double half = y.low == 0 ? 1 : std::fabs(y.low) * 0.1;
      y = {y.low - half, y.high + half};
    }
    if (log_) {
      // What is a million times smaller than the rest would leave no room for it.
      y_ = {std::max(y.low / 1.05, y.high * 1e-6), y.high * 1.05};
      y_ticks_ = log_ticks(y_);
      if (y_ticks_.size() < 3) y_ticks_ = nice_ticks(y_.low, y_.high, 5);
    } else {
      y_ticks_ = nice_ticks(y.low, y.high, 5);
      // The axis ends at ticks.
      y_ = {std::min(y.low, y_ticks_.front()), std::max(y.high, y_ticks_.back())};
      const double room = 0.03 * (y_.high - y_.low);
      if (y.low < y_ticks_.front() || y_.low == y.low) y_.low -= y.low == 0 ? 0 : room;
      if (y_.high == y.high) y_.high += room;
    }
    x_ticks_ = nice_ticks(x_.low, x_.high, 6);
    std::erase_if(x_ticks_, [](double step) { return step != std::floor(step); });
  }

  double x(double step) const {
    return kLeft + (step - x_.low) / (x_.high - x_.low) * (Panel::kWidth - kLeft - kRight);
  }
  double y(double value) const {
    const double part = log_ ? std::log(value / y_.low) / std::log(y_.high / y_.low)
                             : (value - y_.low) / (y_.high - y_.low);
    return bottom() - part * (bottom() - top_);
  }
  bool shows(double value) const { return std::isfinite(value) && (!log_ || value >= y_.low); }
  static double bottom() { return Panel::kHeight - kBottom; }
  double top() const { return top_; }
  const Range& steps() const { return x_; }

  std::string svg() const {
    std::string out;
    for (const double tick : y_ticks_) {
      if (tick < y_.low || tick > y_.high) continue;
      const std::string place = at(y(tick));
      out += concat("<path class='grid' d='M", at(kLeft), " ", place, "H",
                    at(Panel::kWidth - kRight), "'/><text x='", at(kLeft - 8), "' y='", place,
                    "' dy='.35em' text-anchor='end'>", tick_text(tick), "</text>\n");
    }
    for (const double tick : x_ticks_) {
      if (tick < x_.low || tick > x_.high) continue;
      const std::string place = at(x(tick));
      out += concat("<path class='tick' d='M", place, " ", at(bottom()), "v5'/><text x='", place,
                    "' y='", at(bottom() + 18), "' text-anchor='middle'>", tick_text(tick),
                    "</text>\n");
    }
    return out + concat("<path class='axis' d='M", at(kLeft), " ", at(bottom()), "H",
                        at(Panel::kWidth - kRight), "'/><text x='",
                        at((kLeft + Panel::kWidth - kRight) / 2), "' y='", at(bottom() + 38),
                        "' text-anchor='middle'>", xml_text(x_label_), "</text>\n");
  }

 private:
  bool log_;
  double top_;
  std::string x_label_;
  Range x_, y_;
  std::vector<double> x_ticks_, y_ticks_;
};

// The line through the points. Of many points in one column of pixels, the first, the least, the
// greatest and the last are enough to look the same.
std::string path(const Axes& axes, const std::vector<double>& steps,
                 const std::vector<double>& values) {
  std::string out;
  bool pen = false;
  for (size_t i = 0; i < steps.size();) {
    const double column = std::floor(axes.x(steps[i]));
    size_t end = i, least = i, most = i;
    for (; end < steps.size() && std::floor(axes.x(steps[end])) == column; ++end) {
      if (!(values[least] <= values[end])) least = end;
      if (!(values[most] >= values[end])) most = end;
    }
    size_t chosen[] = {i, std::min(least, most), std::max(least, most), end - 1};
    for (size_t k = 0; k < 4; ++k) {
      if (k > 0 && chosen[k] == chosen[k - 1]) continue;
      if (!axes.shows(values[chosen[k]])) {
        pen = false;
        continue;
      }
      out +=
          concat(pen ? "L" : "M", at(axes.x(steps[chosen[k]])), " ", at(axes.y(values[chosen[k]])));
      pen = true;
    }
    i = end;
  }
  return out;
}

std::string line(const std::string& classes, const std::string& points) {
  return points.empty() ? "" : concat("<path class='", classes, "' d='", points, "'/>\n");
}

std::string drawn(const Series& series, const Axes& axes, const ChartOptions& options) {
  const Curve& curve = *series.curve;
  const std::string colour = concat("line c", series.colour, series.dashed ? " dashed" : "");
  if (curve.values.size() >= kFewPoints && options.smoothing > 0)
    return line(colour + " raw", path(axes, curve.steps, curve.values)) +
           line(colour, path(axes, curve.steps, smoothed(curve.values, options.smoothing)));
  std::string out = line(colour, path(axes, curve.steps, curve.values));
  for (size_t i = 0; i < curve.values.size() && curve.values.size() < kFewPoints; ++i)
    if (axes.shows(curve.values[i]))
      out += concat("<circle class='dot c", series.colour, "' cx='", at(axes.x(curve.steps[i])),
                    "' cy='", at(axes.y(curve.values[i])), "' r='2.5'/>\n");
  return out;
}

// The legend, and below which line of the picture the diagram can start.
std::pair<std::string, double> legend(const Panel& panel) {
  std::string out;
  double x = kLeft, y = kTitle + 14;
  for (const Series& series : panel.series) {
    double last = NAN;
    for (const double value : series.curve->values) last = std::isfinite(value) ? value : last;
    const std::string shown = std::isnan(last) ? "–" : figure_text(last);
    const double width = 50 + 6.6 * (text_columns(series.label) + 2 + text_columns(shown));
    if (x > kLeft && x + width > Panel::kWidth - kRight) {
      x = kLeft;
      y += kLegendLine;
    }
    out += concat("<path class='line c", series.colour, series.dashed ? " dashed" : "", "' d='M",
                  at(x), " ", at(y), "h22'/><text class='label' x='", at(x + 28), "' y='", at(y),
                  "' dy='.35em'>", xml_text(series.label), "  <tspan class='value'>", shown,
                  "</tspan></text>\n");
    x += width;
  }
  return {out, y + 20};
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '<')
      out += "&lt;";
    else if (letter == '>')
      out += "&gt;";
    else if (letter == '&')
      out += "&amp;";
    else if (static_cast<uint8_t>(letter) >= 0x20)
      out += letter;
  }
  return out;
}

std::string Panel::svg(const ChartOptions& options) const {
  const auto [labels, top] = legend(*this);
  const Axes axes(*this, options, top);
  std::string out = concat("<text class='title' x='", at(kLeft), "' y='", at(kTitle - 6), "'>",
                           xml_text(title), "</text>\n", labels, axes.svg());
  for (const Series& one : series) out += drawn(one, axes, options);
  return out;
}

std::string Panel::data(const ChartOptions& options) const {
  const Axes axes(*this, options, legend(*this).second);
  std::string out =
      concat("{\"x\":[", exact_text(axes.steps().low), ",", exact_text(axes.steps().high),
             "],\"left\":", at(kLeft), ",\"right\":", at(kWidth - kRight),
             ",\"top\":", at(axes.top()), ",\"bottom\":", at(Axes::bottom()), ",\"series\":[");
  for (const Series& one : series) {
    const auto list = [](const std::vector<double>& values) {
      // A few hundred points serve the pointer.
      const size_t stride = std::max<size_t>(1, values.size() / 600);
      std::string text;
      for (size_t i = 0; i < values.size(); i += stride)
        text += concat(text.empty() ? "" : ",",
                       std::isfinite(values[i]) ? figure_text(values[i]) : "null");
      return text;
    };
    out += concat(&one == series.data() ? "" : ",", "{\"name\":", json_string(one.label),
                  ",\"colour\":", one.colour, ",\"steps\":[", list(one.curve->steps),
                  "],\"values\":[", list(one.curve->values), "]}");
  }
  return out + "]}";
}

}  // namespace tensora::train
