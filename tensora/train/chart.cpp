#include "tensora/train/chart.h"

#include <algorithm>
#include <cmath>

#include "tensora/base/check.h"
#include "tensora/train/chart_panel.h"

namespace tensora::train {
namespace {

constexpr int kColours = 8;
// Distinct for most kinds of colour vision, in light and in dark.
constexpr std::string_view kStyle = R"css(
svg { --back: #ffffff; --ink: #1f2937; --soft: #6b7280; --grid: #e5e7eb;
  --c0: #2563eb; --c1: #ea580c; --c2: #059669; --c3: #9333ea; --c4: #dc2626; --c5: #0891b2;
  --c6: #ca8a04; --c7: #db2777; font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; }
@media (prefers-color-scheme: dark) { svg { --back: #111827; --ink: #f3f4f6; --soft: #9ca3af;
  --grid: #374151; --c0: #60a5fa; --c1: #fb923c; --c2: #34d399; --c3: #c084fc; --c4: #f87171;
  --c5: #22d3ee; --c6: #facc15; --c7: #f472b6; } }
.back { fill: #ffffff; fill: var(--back); }
text { fill: #6b7280; fill: var(--soft); white-space: pre; }
.head { font-size: 18px; font-weight: 600; fill: #1f2937; fill: var(--ink); }
.title { font-size: 14px; font-weight: 600; fill: #1f2937; fill: var(--ink); }
.label { fill: #1f2937; fill: var(--ink); }
.value { fill: #6b7280; fill: var(--soft); }
.grid { stroke: #e5e7eb; stroke: var(--grid); }
.axis, .tick { stroke: #6b7280; stroke: var(--soft); fill: none; }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.raw { stroke-width: 1; opacity: .28; }
.dashed { stroke-dasharray: 6 4; }
)css";
// The same for viewers without variables, which show the light form.
constexpr std::string_view kPlainColours[kColours] = {"#2563eb", "#ea580c", "#059669", "#9333ea",
                                                      "#dc2626", "#0891b2", "#ca8a04", "#db2777"};

constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; }
body { margin: 24px; font: 14px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif;
  background: #ffffff; color: #1f2937; }
h1 { font-size: 20px; margin: 0 0 16px 8px; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr));
  gap: 16px; }
figure { margin: 0; position: relative; border: 1px solid #e5e7eb; border-radius: 10px;
  overflow: hidden; }
figure svg { display: block; width: 100%; height: auto; }
.tip { position: absolute; display: none; pointer-events: none; padding: 6px 9px;
  border-radius: 6px; background: #1f2937; color: #f9fafb; font-size: 12px; white-space: pre; }
@media (prefers-color-scheme: dark) { body { background: #0b1220; color: #f3f4f6; }
  figure { border-color: #374151; } .tip { background: #f3f4f6; color: #111827; } }
)css";

// Shows the values nearest to the pointer.
constexpr std::string_view kScript = R"js(
for (const figure of document.querySelectorAll('figure')) {
  const svg = figure.querySelector('svg'), tip = figure.querySelector('.tip');
  const data = JSON.parse(figure.querySelector('script').textContent);
  const rule = svg.appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'path'));
  rule.setAttribute('class', 'tick');
  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle; else high = middle;
    }
    return step - steps[low] < steps[high] - step ? low : high;
  };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    const inside = x >= data.left && x <= data.right;
    tip.style.display = inside ? 'block' : 'none';
    rule.setAttribute('d', inside ? `M${x} ${data.top}V${data.bottom}` : '');
    if (!inside) return;
    const step = data.x[0] + (x - data.left) / (data.right - data.left) * (data.x[1] - data.x[0]);
    const lines = data.series.filter(one => one.steps.length).map(one => {
      const i = nearest(one.steps, step);
      return `${one.name}: ${one.values[i] ?? 'not finite'}  (step ${one.steps[i]})`;
    });
    tip.textContent = lines.join('\n');
    const left = event.clientX - box.left;
    tip.style.left = Math.min(left + 14, box.width - tip.offsetWidth - 6) + 'px';
    tip.style.top = Math.max(4, event.clientY - box.top - tip.offsetHeight - 10) + 'px';
  });
  svg.addEventListener('pointerleave', () => {
    tip.style.display = 'none';
    rule.setAttribute('d', '');
  });
}
)js";

std::string style() {
  std::string out(kStyle);
  for (int i = 0; i < kColours; ++i)
    out += concat(".c", i, " { stroke: ", kPlainColours[i], "; stroke: var(--c", i, "); } .dot.c",
                  i, " { fill: ", kPlainColours[i], "; fill: var(--c", i, "); }\n");
  return out;
}

std::string before_slash(const std::string& name) { return name.substr(0, name.find('/')); }

// One run: a colour for each curve of a panel. Several: a colour for each run, and dashes for what
// is not its first curve.
std::vector<Panel> panels_of(std::span<const RunHistory> runs) {
  std::vector<Panel> panels;
  for (size_t run = 0; run < runs.size(); ++run) {
    for (const Curve& curve : runs[run].curves) {
      const std::string group = before_slash(curve.name);
      auto panel = std::find_if(panels.begin(), panels.end(),
                                [&](const Panel& one) { return one.title == group; });
      if (panel == panels.end()) panel = panels.insert(panel, Panel{group, {}});
      std::string part = curve.name == group ? group : curve.name.substr(group.size() + 1);
      const auto before =
          std::count_if(panel->series.begin(), panel->series.end(), [&](const Series& one) {
            return runs.size() == 1 || one.colour == static_cast<int>(run % kColours);
          });
      Series series{std::move(part), &curve, static_cast<int>(before) % kColours, false};
      if (runs.size() > 1) {
        series.label =
            curve.name == group ? runs[run].name : concat(runs[run].name, " ", series.label);
        series.colour = static_cast<int>(run % kColours);
        series.dashed = before > 0;
      }
      panel->series.push_back(std::move(series));
    }
  }
  return panels;
}

}  // namespace

std::vector<double> nice_ticks(double low, double high, int count) {
  ensure(high > low && count > 0, "nice_ticks: expected a range");
  const double rough = (high - low) / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double digit : {1.0, 2.0, 5.0})
    if (digit * power >= rough * 0.999) {
      step = digit * power;
      break;
    }
  std::vector<double> out;
  // Numbers beyond 2^53 steps, such as nanoseconds since 1970, have no next multiple.
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && k + 1 != k; ++k)
    out.push_back(k * step + 0.0);  // never -0
  if (out.empty()) out.push_back(low);
  return out;
}

std::string chart_svg(std::span<const RunHistory> runs, const ChartOptions& options) {
  const std::vector<Panel> panels = panels_of(runs);
  const size_t across = panels.size() > 1 ? 2 : 1;
  const size_t down = (panels.size() + across - 1) / across;
  constexpr double kHead = 46;
  const double width = Panel::kWidth * double(across);
  const double height = kHead + Panel::kHeight * double(std::max<size_t>(down, 1));
  std::string out =
      concat("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 ", width, " ", height,
             "' width='", width, "' height='", height, "'>\n<style>", style(),
             "</style>\n<rect class='back' width='100%' height='100%'/>\n",
             "<text class='head' x='24' y='32'>", xml_text(options.title), "</text>\n");
  for (size_t i = 0; i < panels.size(); ++i)
    out += concat("<g transform='translate(", Panel::kWidth * double(i % across), " ",
                  kHead + Panel::kHeight * double(i / across), ")'>\n", panels[i].svg(options),
                  "</g>\n");
  return out + "</svg>\n";
}

std::string chart_html(std::span<const RunHistory> runs, const ChartOptions& options) {
  std::string out =
      concat("<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>",
             "<meta name='viewport' content='width=device-width'><title>", xml_text(options.title),
             "</title>\n<style>", kPageStyle, style(), "</style></head>\n<body><h1>",
             xml_text(options.title), "</h1>\n<main>\n");
  for (const Panel& panel : panels_of(runs)) {
    std::string data = panel.data(options);
    // A name must not end the script element.
    for (size_t at = data.find('<'); at != data.npos; at = data.find('<', at))
      data.replace(at, 1, "\\u003c");
    out += concat("<figure><svg viewBox='0 0 ", Panel::kWidth, " ", Panel::kHeight,
                  "'><rect class='back' width='100%' height='100%'/>\n", panel.svg(options),
                  "</svg><div class='tip'></div><script type='application/json'>", data,
                  "</script></figure>\n");
  }
  return concat(out, "</main>\n<script>", kScript, "</script></body></html>\n");
}

}  // namespace tensora::train
