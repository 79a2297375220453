#include "scale_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "figures.h"
#include "tensora/base/check.h"
#include "tensora/train/chart.h"

namespace tensora::cli {
namespace {

using distributed::ScalePrediction;

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string percent(double share) { return fixed(100 * share, 1) + " %"; }

std::string seconds_text(double seconds) {
  if (seconds < 1) return fixed(seconds * 1e3, 1) + " ms";
  return fixed(seconds, 2) + " s";
}

double per_rank(double tokens, const ScalePrediction& p) { return tokens / p.layout.ranks(); }

// The layout without the number of its data-parallel ranks, by which the curve goes.
std::string curve_name(const ScalePrediction& p) {
  distributed::ScaleLayout layout = p.layout;
  layout.data = 1;
  std::string text = layout.text();
  const size_t at = text.find("dp=1");
  return text.replace(at, 4, "dp");
}

constexpr double kWidth = 720, kHeight = 400, kLeft = 80, kRight = 20, kTop = 40, kBottom = 60;
constexpr const char* kColours[] = {"#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed"};

/// Ranks on a logarithmic axis, tokens on one from 0.
struct Axes {
  double fewest, most, highest;

  double x(double ranks) const {
    const double span = std::max(std::log(most / fewest), 1e-9);
    return kLeft +
           (kWidth - kLeft - kRight) * (most > fewest ? std::log(ranks / fewest) / span : .5);
  }
  double y(double tokens) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * tokens / highest;
  }
  std::string point(double ranks, double tokens) const {
    return concat(fixed(x(ranks), 1), ",", fixed(y(tokens), 1), " ");
  }
};

std::string axes_svg(const Axes& axes, const std::map<int, bool>& sizes) {
  std::string svg;
  for (const double tick : train::nice_ticks(0, axes.highest, 5)) {
    if (tick > axes.highest) continue;
    append(svg, concat("<path d=\"M", kLeft, " ", fixed(axes.y(tick), 1), "H", kWidth - kRight,
                       "\" stroke=\"#d1d5db\"/><text x=\"", kLeft - 8, "\" y=\"",
                       fixed(axes.y(tick) + 4, 1), "\" text-anchor=\"end\">", count_text(tick),
                       "</text>\n"));
  }
  for (const auto& [ranks, shown] : sizes)
    append(svg, concat("<text x=\"", fixed(axes.x(ranks), 1), "\" y=\"", kHeight - kBottom + 20,
                       "\" text-anchor=\"middle\">", ranks, "</text>\n"));
  return svg + concat("<text x=\"", kWidth / 2, "\" y=\"", kHeight - kBottom + 42,
                      "\" text-anchor=\"middle\">ranks</text>\n");
}

}  // namespace

std::string scale_table(std::span<const ScalePrediction> predictions) {
  std::vector<std::vector<std::string>> rows = {{">ranks", "layout", ">step", ">tokens/s",
                                                 ">per rank", ">interval", ">MFU", ">exposed",
                                                 ">bubble", ">memory", ">goodput"}};
  for (const ScalePrediction& p : predictions)
    rows.push_back({concat(p.layout.ranks()), p.layout.text(), seconds_text(p.seconds),
                    count_text(p.tokens_per_second), fixed(per_rank(p.tokens_per_second, p), 0),
                    concat(fixed(per_rank(p.low, p), 0), "-", fixed(per_rank(p.high, p), 0)),
                    percent(p.mfu), percent((p.exposed_data + p.exposed_tensor) / p.seconds),
                    percent(p.bubble / p.seconds),
                    bytes_text(p.memory()) + (p.fits ? "" : " (too much)"), percent(p.goodput)});
  return table_text(std::move(rows));
}

std::string scale_json(const distributed::ScaleJob& job, const distributed::ScaleMachine& machine,
                       std::span<const ScalePrediction> predictions) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ScalePrediction& p : predictions)
    list.push_back({{"ranks", p.layout.ranks()},
                    {"layout", p.layout.text()},
                    {"step_seconds", p.seconds},
                    {"tokens_per_second", p.tokens_per_second},
                    {"tokens_per_second_interval", {p.low, p.high}},
                    {"tokens_per_second_and_rank", per_rank(p.tokens_per_second, p)},
                    {"mfu", p.mfu},
                    {"communication_seconds", p.communication},
                    {"exposed_data_parallel_seconds", p.exposed_data},
                    {"exposed_tensor_parallel_seconds", p.exposed_tensor},
                    {"pipeline_bubble_seconds", p.bubble},
                    {"straggler_seconds", p.straggling},
                    {"parameter_bytes", p.parameters},
                    {"optimizer_bytes", p.optimizer},
                    {"activation_bytes", p.activations},
                    {"memory_bytes", p.memory()},
                    {"fits", p.fits},
                    {"goodput", p.goodput},
                    {"checkpoint_interval_seconds", p.checkpoint_interval},
                    {"traced_ops", p.traced_ops}});
  const nlohmann::ordered_json json = {
      {"machine", machine.name},        {"context", job.context},
      {"micro_batch", job.micro_batch}, {"global_batch", job.global_batch},
      {"recompute", job.recompute},     {"predictions", list}};
  return json.dump(2);
}

std::string scale_svg(const std::string& title, std::span<const ScalePrediction> predictions) {
  std::map<std::string, std::vector<ScalePrediction>> curves;
  std::map<int, bool> sizes;
  Axes axes{1e30, 1, 1e-9};
  for (const ScalePrediction& p : predictions) {
    curves[curve_name(p)].push_back(p);
    sizes[p.layout.ranks()] = true;
    axes.fewest = std::min<double>(axes.fewest, p.layout.ranks());
    axes.most = std::max<double>(axes.most, p.layout.ranks());
    axes.highest = std::max(axes.highest, 1.1 * per_rank(p.high, p));
  }
  std::string svg =
      concat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", kHeight,
             "\" font-family=\"sans-serif\" font-size=\"12\">\n",
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"", kLeft,
             "\" y=\"22\" font-size=\"14\">", title, ": tokens per second per rank</text>\n");
  svg += axes_svg(axes, sizes);
  size_t index = 0;
  for (auto& [curve, points] : curves) {
    std::ranges::sort(points, {}, [](const ScalePrediction& p) { return p.layout.ranks(); });
    const char* const colour = kColours[index % std::size(kColours)];
    std::string line, band, back;
    for (const ScalePrediction& p : points) {
      line += axes.point(p.layout.ranks(), per_rank(p.tokens_per_second, p));
      band += axes.point(p.layout.ranks(), per_rank(p.high, p));
      back = axes.point(p.layout.ranks(), per_rank(p.low, p)) + back;
    }
    append(svg, concat("<polygon points=\"", band, back, "\" fill=\"", colour,
                       "\" fill-opacity=\"0.15\" stroke=\"", colour,
                       "\" stroke-opacity=\"0.3\"/>\n<polyline points=\"", line,
                       "\" fill=\"none\" stroke=\"", colour, "\" stroke-width=\"2\"/>\n<text x=\"",
                       kWidth - kRight, "\" y=\"",
                       kHeight - kBottom - 10 - 16 * static_cast<double>(index),
                       "\" text-anchor=\"end\" fill=\"", colour, "\">", curve, "</text>\n"));
    ++index;
  }
  return svg + "</svg>\n";
}

}  // namespace tensora::cli
