#include <cstdio>

#include "bench_suite.h"
#include "bench_suite_plots.h"
#include "tensora/base/check.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --back: #fff; --card: #fff; --ink: #1f2937; --soft: #566070;
  --grid: #e5e7eb; --good: #047857; --bad: #b91c1c;
  --c0: #2563eb; --c1: #ea580c; --c2: #059669; --c3: #9333ea; --c4: #dc2626; --c5: #0891b2;
  --c6: #ca8a04; --c7: #db2777; --rest: #94a3b8; }
@media (prefers-color-scheme: dark) { :root { --back: #0b1220; --card: #111827; --ink: #f3f4f6;
  --soft: #a3adbb; --grid: #374151; --good: #34d399; --bad: #f87171; --c0: #60a5fa; --c1: #fb923c;
  --c2: #34d399; --c3: #c084fc; --c4: #f87171; --c5: #22d3ee; --c6: #facc15; --c7: #f472b6;
  --rest: #64748b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 20px; max-width: 1240px; background: var(--back); color: var(--ink);
  font: 14px/1.45 system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 28px 0 8px; }
p { margin: 6px 0; } h2, p { overflow-wrap: anywhere; unicode-bidi: isolate; } .soft { color: var(--soft); }
.plots { columns: 2 400px; column-gap: 14px; }
figure { margin: 0 0 14px; padding: 8px; break-inside: avoid; border: 1px solid var(--grid); border-radius: 10px;
  background: var(--card); }
svg { display: block; width: 100%; height: auto; font: 11px system-ui, 'DejaVu Sans', sans-serif; }
svg .title { font-size: 11.5px; font-weight: 600; fill: var(--ink); } svg .label { fill: var(--ink); }
svg .value { fill: var(--soft); }
.table { overflow-x: auto; margin: 10px 0; border: 1px solid var(--grid); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } tr + tr { border-top: 1px solid var(--grid); }
th:first-child, td:first-child, .left { text-align: left; }
.faster { color: var(--good); font-weight: 600; } .slower, .bad { color: var(--bad); font-weight: 600; }
code { display: block; padding: 8px 10px; border: 1px solid var(--grid); border-radius: 8px;
  overflow-wrap: anywhere; background: var(--card); }
)css";

std::string figure(const Json& object, const char* name, const char* format = "%.2f",
                   double factor = 1) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return "–";
  char text[64];
  std::snprintf(text, sizeof(text), format, factor * found->get<double>());
  return text;
}

// A value of any type: a saved result may have been written by somebody else.
std::string text_of(const Json& value) {
  return escaped(value.is_string() ? value.get<std::string>()
                                   : value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string word(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || *found == "" ? "–" : text_of(*found);
}

const Json& part(const Json& object, const char* name) {
  static const Json none = Json::object();
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string out = "<tr>";
  for (const std::string& cell : cells) {
    const bool is_verdict = cell == "faster" || cell == "slower";
    out += concat("<", tag, is_verdict ? concat(" class=\"", cell, "\"") : "", ">", cell, "</", tag,
                  ">");
  }
  return out + "</tr>\n";
}

std::string table(const std::vector<std::string>& head, const std::string& rows) {
  if (rows.empty()) return {};
  return concat("<div class=\"table\" tabindex=\"0\"><table>\n", row(head, "th"), rows,
                "</table></div>\n");
}

std::string interval(const Json& one, const char* low, const char* high, const char* format) {
  return figure(one, low, format) + " to " + figure(one, high, format);
}

std::string speed_table(const Json& comparison) {
  std::string rows;
  for (const Json& test : comparison.at("tests"))
    for (const Json& one : test.at("results")) {
      const Json& times = part(one, one.contains("token_ms") ? "token_ms" : "prefill_ms");
      rows += row(
          {word(test, "test") + " " + word(one, "framework"), figure(one, "median_ts"),
           interval(one, "low_ts", "high_ts", "%.2f"), figure(one, "ratio", "%.3f"),
           interval(one, "ratio_low", "ratio_high", "%.3f"), word(one, "verdict"),
           figure(one, "processor_ms_per_token", "%.4f"), figure(one, "processor_ratio", "%.2f"),
           figure(one, "coefficient_of_variation", "%.1f", 100) +
               (one.value("steady", true) ? "" : " (unsteady)"),
           figure(times, "p50", "%.3f"), figure(times, "p90", "%.3f"), figure(times, "p99", "%.3f"),
           figure(one, "gb_per_second"), figure(one, "percent_of_peak", "%.0f")});
    }
  return table(
      {"test", "tokens/s", "95 % interval", "ratio", "95 % interval", "verdict", "CPU ms per token",
       "CPU ratio", "CV %", "ms p50", "p90", "p99", "GB/s", "% of peak"},
      rows);
}

std::string framework_table(const Json& comparison) {
  std::string rows;
  for (const Json& one : comparison.at("frameworks")) {
    const Json& check = part(one, "equivalence");
    const Json& cold = part(one, "cold_start");
    const int64_t first = check.value("first_differing_token", int64_t{-1});
    rows +=
        row({word(one, "name"), word(one, "version"), word(one, "device"), word(one, "level"),
             word(one, "precision"), figure(cold, "total"), figure(cold, "model", "%.3f"),
             figure(cold, "first_prefill", "%.1f", 1e3), figure(check, "max_error", "%.2e"),
             figure(check, "kl_divergence", "%.1e"), figure(check, "top1_agreement", "%.1f", 100),
             check.empty() ? "–"
             : first < 0   ? "none"
                           : concat("token ", first),
             one.at("status") == "measured"
                 ? word(one, "status")
                 : concat("<span class=\"bad\">", word(one, "status"), "</span>")});
  }
  return table(
      {"framework", "version", "device", "level", "precision", "cold start s", "model load s",
       "first prefill ms", "max logit error", "KL", "top-1 %", "first difference", "status"},
      rows);
}

std::string unfair(const Json& from) {
  std::string out;
  for (const Json& reason : part(from, "unfair"))
    out += concat("<p class=\"bad\">Unfair: ", text_of(reason), "</p>\n");
  return out;
}

std::string notes(const Json& comparison) {
  std::string out = unfair(comparison);
  for (const Json& one : comparison.at("frameworks")) {
    if (one.at("status") != "measured")
      out += concat("<p class=\"bad\">", word(one, "name"),
                    " was not measured: ", word(one, "reason"), "</p>\n");
    for (const char* list : {"refusals", "notes"})
      for (const Json& note : part(one, list))
        out += concat("<p>", word(one, "name"), ": ", text_of(note), "</p>\n");
  }
  return out;
}

// Every field of BenchmarkResult under its name.
std::string result_table(const Json& comparison) {
  std::string rows;
  std::vector<std::string> head = {"test"};
  for (const Json& test : comparison.at("tests"))
    for (const Json& one : test.at("results")) {
      std::vector<std::string> cells = {word(test, "test")};
      for (const auto& [name, value] : part(one, "result").items()) {
        if (rows.empty()) head.push_back(escaped(name));
        cells.push_back(value.is_number_float() ? figure(part(one, "result"), name.c_str(), "%.6g")
                                                : text_of(value));
      }
      rows += row(cells);
    }
  return table(head, rows);
}

std::string baseline(const Json& against) {
  std::string rows;
  for (const Json& one : against.at("tests"))
    rows += row({word(one, "test"), figure(one, "baseline_ts"), figure(one, "median_ts"),
                 figure(one, "ratio", "%.3f"), interval(one, "ratio_low", "ratio_high", "%.3f"),
                 word(one, "verdict")});
  return concat("<h2>Against the baseline of ", word(against, "time"), "</h2>\n", unfair(against),
                table({"test", "before", "now", "ratio", "95 % interval", "verdict"}, rows));
}

std::string machine_table(const Json& machine) {
  std::string rows;
  for (const auto& [name, value] : machine.items())
    if (!value.is_object())
      rows += row({escaped(name), concat("<span class=\"left\">", text_of(value), "</span>")});
  for (const auto& [name, value] : part(machine, "states").items())
    rows += row({escaped(name), concat(figure(value, "min"), " to ", figure(value, "max"),
                                       ", mean ", figure(value, "mean"))});
  return table({"machine", ""}, rows);
}

}  // namespace

std::string suite_html(const Json& result) {
  std::string body;
  for (const Json& comparison : result.at("comparisons")) {
    body += concat(
        "<h2>", word(comparison, "model"), " <span class=\"soft\">", word(comparison, "path"),
        "</span></h2>\n", notes(comparison), "<div class=\"plots\">\n", throughput_plot(comparison),
        token_time_plot(comparison), memory_plot(comparison),
        curve_plot(comparison, "n_sequences", "Decode tokens/s over sequences at once"),
        curve_plot(comparison, "n_depth", "Decode tokens/s over context depth"), "</div>\n",
        speed_table(comparison), framework_table(comparison), result_table(comparison));
  }
  if (result.contains("baseline")) body += baseline(result.at("baseline"));
  return concat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Frameworks compared by Tensora</title>\n<style>",
      kStyle, "</style></head><body>\n<h1>Frameworks compared by Tensora</h1>\n<p class=\"soft\">",
      word(result, "time"), ", ", word(result, "rounds"),
      " interleaved rounds. Medians with bootstrap 95 % intervals; a verdict needs the whole "
      "interval of the ratio beyond 1 ± 2 %.</p>\n",
      body, "<h2>Repeat it</h2>\n<code>", word(result, "command"), "</code>\n",
      machine_table(part(result, "machine")), "</body></html>\n");
}

}  // namespace tensora::cli
