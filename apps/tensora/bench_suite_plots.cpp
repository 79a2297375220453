#include "bench_suite_plots.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/train/chart.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr size_t kMostMemoryRows = 24;
constexpr double kWidth = 440, kLeft = 118, kRight = 52, kRow = 18;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text),
                value >= 1000  ? "%.0f"
                : value >= 100 ? "%.1f"
                : value >= 1   ? "%.2f"
                               : "%.3g",
                value);
  return text;
}

std::string tick_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value == 0 ? 0. : value);  // never -0
  return text;
}

std::string coordinate(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

std::string text_at(double x, double y, const std::string& text, const char* anchor,
                    const char* style) {
  return concat("<text x=\"", coordinate(x), "\" y=\"", coordinate(y), "\" text-anchor=\"", anchor,
                "\" class=\"", style, "\">", escaped(text), "</text>\n");
}

std::string rectangle(double x, double y, double width, double height, const std::string& colour,
                      const std::string& tip) {
  return concat("<rect x=\"", coordinate(x), "\" y=\"", coordinate(y), "\" width=\"",
                coordinate(std::max(width, 0.5)), "\" height=\"", coordinate(height),
                "\" fill=\"var(--", colour, ")\"><title>", escaped(tip), "</title></rect>\n");
}

std::string framework_colour(size_t number) { return concat("c", number % 8); }

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return concat("<line x1=\"", coordinate(x1), "\" y1=\"", coordinate(y1), "\" x2=\"",
                coordinate(x2), "\" y2=\"", coordinate(y2), "\" ", style, "/>\n");
}

std::string framed(const std::string& title, double height, const std::string& body) {
  return concat("<figure><svg viewBox=\"0 0 ", coordinate(kWidth), " ", coordinate(height),
                "\" role=\"img\" aria-label=\"", escaped(title), "\">\n",
                text_at(8, 18, title, "start", "title"), body, "</svg></figure>\n");
}

// The frameworks that were measured, in their order, which is that of the colours.
std::vector<std::string> names_of(const Json& comparison) {
  std::vector<std::string> names;
  for (const Json& test : comparison.at("tests"))
    for (const Json& one : test.at("results")) {
      const std::string name = one.at("framework");
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  return names;
}

size_t colour_of(const Json& comparison, const std::string& name) {
  const auto names = names_of(comparison);
  return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
}

// At most `most` bytes, of whole UTF-8 letters.
std::string cut(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

// A colour key; `top` moves below it.
template <class Colour>
std::string key(const std::vector<std::string>& names, double& top, const Colour& colour) {
  std::string out;
  double x = 8;
  for (size_t i = 0; i < names.size(); ++i) {
    const double width = 24 + 6.6 * static_cast<double>(names[i].size());
    if (x + width > kWidth && x > 8) {
      x = 8;
      top += kRow;
    }
    out += rectangle(x, top, 10, 10, colour(i), names[i]) +
           text_at(x + 15, top + 9, names[i], "start", "label");
    x += width;
  }
  top += kRow + 4;
  return out;
}

// One bar or mark per framework and test, a test's together.
template <class Draw>
std::string bars(const Json& comparison, const std::string& title, const Draw& draw) {
  std::string body;
  double y = 32;
  body += key(names_of(comparison), y, framework_colour);
  size_t drawn = 0;
  for (const Json& test : comparison.at("tests")) {
    const double begin = y;
    for (const Json& one : test.at("results")) {
      const std::string bar = draw(test, one, colour_of(comparison, one.at("framework")), y);
      if (bar.empty()) continue;
      body += bar;
      y += kRow;
      ++drawn;
    }
    if (y == begin) continue;
    body += text_at(kLeft - 8, (begin + y) / 2 + 3, cut(test.at("test"), 18), "end", "label");
    y += 8;
  }
  return drawn > 0 ? framed(title, y + 4, body) : "";
}

template <class Value>
double largest(const Json& comparison, const Value& value) {
  double most = 0;
  for (const Json& test : comparison.at("tests"))
    for (const Json& one : test.at("results")) most = std::max(most, value(one));
  return most > 0 ? most : 1;
}

double nested(const Json& object, const char* outer, const char* inner) {
  const auto found = object.find(outer);
  return found == object.end() ? 0 : found->value(inner, 0.);
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char letter : text) switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Control characters are not allowed in a document, escaped or not.
        out += static_cast<unsigned char>(letter) < ' ' && letter != '\n' && letter != '\t'
                   ? std::string("\uFFFD")
                   : std::string(1, letter);
    }
  return out;
}

std::string throughput_plot(const Json& comparison) {
  // Prefill and decode differ by orders of magnitude: each test has a scale of its own.
  return bars(comparison, "Throughput, tokens/s, with 95 % intervals (one scale per test)",
              [&](const Json& test, const Json& one, size_t colour, double y) {
                double most = 0;
                for (const Json& other : test.at("results"))
                  most = std::max(most, other.at("high_ts").get<double>());
                const double scale = (kWidth - kLeft - kRight) / (most > 0 ? most : 1);
                const double low = kLeft + scale * one.at("low_ts").get<double>();
                const double high = kLeft + scale * one.at("high_ts").get<double>();
                const double median = one.at("median_ts"), middle = y + 7;
                const std::string tip =
                    concat(one.at("framework").get<std::string>(), ", ",
                           test.at("test").get<std::string>(), ": ", number(median), " (",
                           number(one.at("low_ts")), " to ", number(one.at("high_ts")), ")");
                const std::string ink = "stroke=\"var(--ink)\" stroke-width=\"1.3\"";
                return rectangle(kLeft, y, scale * median, 14, framework_colour(colour), tip) +
                       line(low, middle, high, middle, ink) +
                       line(low, middle - 4, low, middle + 4, ink) +
                       line(high, middle - 4, high, middle + 4, ink) +
                       text_at(std::max(high, kLeft + scale * median) + 5, y + 11, number(median),
                               "start", "value");
              });
}

std::string token_time_plot(const Json& comparison) {
  const double most =
      largest(comparison, [](const Json& one) { return nested(one, "token_ms", "max"); });
  const double scale = (kWidth - kLeft - kRight) / most;
  return bars(
      comparison, "Time per step, ms: p50 (dot), p90, p99 (thick), slowest (thin)",
      [&](const Json& test, const Json& one, size_t colour, double y) {
        if (!one.contains("token_ms")) return std::string();
        const auto at = [&](const char* name) {
          return kLeft + scale * nested(one, "token_ms", name);
        };
        const double middle = y + 7;
        const std::string stroke = concat("stroke=\"var(--c", colour % 8, ")\" ");
        const std::string tip =
            concat(one.at("framework").get<std::string>(), ", ", test.at("test").get<std::string>(),
                   ": p50 ", number(nested(one, "token_ms", "p50")), ", p99 ",
                   number(nested(one, "token_ms", "p99")), " ms");
        return line(at("p50"), middle, at("max"), middle, stroke + "stroke-width=\"1\"") +
               line(at("p50"), middle, at("p99"), middle, stroke + "stroke-width=\"4\"") +
               line(at("p90"), middle - 5, at("p90"), middle + 5, stroke + "stroke-width=\"2\"") +
               concat("<circle cx=\"", coordinate(at("p50")), "\" cy=\"", coordinate(middle),
                      "\" r=\"5\" fill=\"var(--c", colour % 8, ")\"><title>", escaped(tip),
                      "</title></circle>\n") +
               text_at(at("max") + 9, y + 11, number(nested(one, "token_ms", "p50")), "start",
                       "value");
      });
}

namespace {

struct MemoryKind {
  const char *field, *name, *colour;
};
constexpr MemoryKind kMemoryKinds[] = {{"weights_gb", "weights", "c4"},
                                       {"kv_cache_gb", "KV cache", "c5"},
                                       {"workspace_gb", "workspace", "c6"},
                                       {"framework_gb", "framework", "rest"}};

double memory_of(const Json& one) {
  double all = 0;
  for (const MemoryKind& kind : kMemoryKinds) all += nested(one, "memory", kind.field);
  return all;
}

struct MemoryRow {
  std::string test;
  const Json* result;
};

// Where there are many, only the largest of each framework.
std::vector<MemoryRow> memory_rows(const Json& comparison) {
  std::vector<MemoryRow> all, most;
  for (const Json& test : comparison.at("tests"))
    for (const Json& one : test.at("results")) all.push_back({test.at("test"), &one});
  if (all.size() <= kMostMemoryRows) return all;
  for (const std::string& name : names_of(comparison)) {
    const MemoryRow* best = nullptr;
    for (const MemoryRow& row : all)
      if (row.result->at("framework") == name &&
          (!best || memory_of(*row.result) > memory_of(*best->result)))
        best = &row;
    most.push_back(*best);
  }
  return most;
}

}  // namespace

std::string memory_plot(const Json& comparison) {
  constexpr double kBegin = kLeft + 46;
  const double scale = (kWidth - kBegin - kRight) / largest(comparison, memory_of);
  std::vector<std::string> legend;
  for (const MemoryKind& kind : kMemoryKinds) legend.emplace_back(kind.name);
  std::string body;
  double y = 32;
  body += key(legend, y, [](size_t i) { return std::string(kMemoryKinds[i].colour); });
  const std::vector<MemoryRow> rows = memory_rows(comparison);
  for (const auto& [test, result] : rows) {
    double x = kBegin;
    const std::string label = concat(cut(result->at("framework"), 9), " ", cut(test, 17));
    body += text_at(x - 8, y + 11, label, "end", "label");
    for (const MemoryKind& kind : kMemoryKinds) {
      const double part = nested(*result, "memory", kind.field);
      if (part <= 0) continue;
      body += rectangle(x, y, scale * part, 14, kind.colour,
                        concat(label, ": ", kind.name, " ", number(part), " GB"));
      x += scale * part;
    }
    body += text_at(x + 5, y + 11, number(memory_of(*result)), "start", "value");
    y += kRow;
  }
  return rows.empty() ? "" : framed("Memory at the peak, GB", y + 8, body);
}

namespace {

std::vector<double> axis_ticks(double least, double most, bool doubles) {
  std::vector<double> ticks;
  if (doubles) {
    for (double tick = least; tick < most * 0.75; tick *= 2) ticks.push_back(tick);
    ticks.push_back(most);
    return ticks;
  }
  for (const double tick : train::nice_ticks(least, most, 6))
    if (tick >= least && tick <= most) ticks.push_back(tick);
  return ticks;
}

}  // namespace

std::string curve_plot(const Json& comparison, const char* field, const char* title) {
  struct Point {
    double x, low, median, high;
  };
  // Curves of one framework and one kind of test, without the field that varies.
  std::map<std::string, std::vector<Point>> curves;
  double least = INFINITY, most = 0, top = 0;
  // Of the other field, only the smallest value.
  const char* other = std::string_view(field) == "n_depth" ? "n_sequences" : "n_depth";
  int64_t smallest = INT64_MAX;
  for (const Json& test : comparison.at("tests"))
    if (test.at("n_gen") > 0) smallest = std::min(smallest, test.at(other).get<int64_t>());
  for (const Json& test : comparison.at("tests")) {
    if (test.at("n_gen") == 0 || test.at("n_prompt") > 0 || test.at(other) != smallest) continue;
    for (const Json& one : test.at("results")) {
      const Point point{test.at(field), one.at("low_ts"), one.at("median_ts"), one.at("high_ts")};
      least = std::min(least, point.x);
      most = std::max(most, point.x);
      top = std::max(top, point.high);
      curves[one.at("framework")].push_back(point);
    }
  }
  if (!(most > least) || top <= 0) return {};
  constexpr double kPlotLeft = 52, kBottom = 250;
  double begin = 32;
  std::string body = key(names_of(comparison), begin, framework_colour);
  // Numbers of sequences are usually doubled.
  const bool doubles = least >= 1 && std::string_view(field) == "n_sequences";
  const auto x_of = [&](double x) {
    const double share =
        doubles ? std::log(x / least) / std::log(most / least) : (x - least) / (most - least);
    return kPlotLeft + (kWidth - 20 - kPlotLeft) * share;
  };
  const auto y_of = [&](double y) { return kBottom - (kBottom - begin - 6) * y / top; };
  for (const double tick : train::nice_ticks(0, top, 5)) {
    if (tick > top) continue;
    body += line(kPlotLeft, y_of(tick), kWidth - 20, y_of(tick), "stroke=\"var(--grid)\"") +
            text_at(kPlotLeft - 6, y_of(tick) + 4, tick_text(tick), "end", "value");
  }
  for (const double tick : axis_ticks(least, most, doubles))
    body += text_at(x_of(tick), kBottom + 16, tick_text(tick), "middle", "value");
  for (auto& [name, points] : curves) {
    std::ranges::sort(points, {}, &Point::x);
    const size_t colour = colour_of(comparison, name) % 8;
    std::string path;
    for (const Point& point : points) {
      path += concat(path.empty() ? "M" : " L", coordinate(x_of(point.x)), " ",
                     coordinate(y_of(point.median)));
      body += line(x_of(point.x), y_of(point.low), x_of(point.x), y_of(point.high),
                   concat("stroke=\"var(--c", colour, ")\" stroke-width=\"1.5\""));
      body +=
          concat("<circle cx=\"", coordinate(x_of(point.x)), "\" cy=\"",
                 coordinate(y_of(point.median)), "\" r=\"3.5\" fill=\"var(--c", colour,
                 ")\"><title>", escaped(name), ": ", number(point.median), "</title></circle>\n");
    }
    body += concat("<path d=\"", path, "\" fill=\"none\" stroke=\"var(--c", colour,
                   ")\" stroke-width=\"2\"/>\n");
  }
  return framed(title, kBottom + 26, body);
}

}  // namespace tensora::cli
