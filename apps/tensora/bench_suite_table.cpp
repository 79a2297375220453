#include <cstdio>

#include "bench_suite.h"
#include "figures.h"
#include "tensora/base/check.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

std::string figure(const Json& object, const char* name, const char* format = "%.2f") {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return "-";
  char text[64];
  std::snprintf(text, sizeof(text), format, found->get<double>());
  return text;
}

std::string word(const Json& object, const char* name) {
  const auto found = object.find(name);
  const std::string text =
      found == object.end() || !found->is_string() ? "" : found->get<std::string>();
  return text.empty() ? "-" : printable(text, 200);
}

const Json& part(const Json& object, const char* name) {
  static const Json none = Json::object();
  const auto found = object.find(name);
  return found == object.end() ? none : *found;
}

std::string speeds(const Json& comparison) {
  Rows rows = {{"test", "framework", ">t/s (median)", ">95 % interval", ">CV %", ">ms p50", ">p99",
                ">GB/s", ">% peak", ">ratio", ">95 % interval", "verdict", ">CPU ms/token",
                ">CPU ratio"}};
  for (const Json& test : comparison.at("tests"))
    for (const Json& one : test.at("results")) {
      const Json& times = part(one, one.contains("token_ms") ? "token_ms" : "prefill_ms");
      const double variation = one.value("coefficient_of_variation", 0.);
      char percent[32];
      std::snprintf(percent, sizeof(percent), "%.1f%s", 100 * variation,
                    one.value("steady", true) ? "" : " !");
      rows.push_back({word(test, "test"), word(one, "framework"), figure(one, "median_ts"),
                      figure(one, "low_ts") + " to " + figure(one, "high_ts"), percent,
                      figure(times, "p50", "%.3f"), figure(times, "p99", "%.3f"),
                      figure(one, "gb_per_second"), figure(one, "percent_of_peak", "%.0f"),
                      figure(one, "ratio", "%.3f"),
                      figure(one, "ratio_low", "%.3f") + " to " + figure(one, "ratio_high", "%.3f"),
                      word(one, "verdict"), figure(one, "processor_ms_per_token", "%.4f"),
                      figure(one, "processor_ratio", "%.2f")});
    }
  return rows.size() > 1 ? table_text(std::move(rows)) : "";
}

std::string frameworks(const Json& comparison) {
  Rows rows = {{"framework", "version", "device", "level", "precision", ">cold start s", ">load s",
                ">KL", ">top-1 %", ">first difference"}};
  for (const Json& one : comparison.at("frameworks")) {
    if (!one.contains("label")) continue;
    const Json& check = part(one, "equivalence");
    char agreement[32] = "-";
    if (check.contains("top1_agreement"))
      std::snprintf(agreement, sizeof(agreement), "%.1f",
                    100 * check.at("top1_agreement").get<double>());
    const int64_t first = check.value("first_differing_token", int64_t{-1});
    rows.push_back({word(one, "name"), word(one, "version"), word(one, "device"),
                    word(one, "level"), word(one, "precision"),
                    figure(part(one, "cold_start"), "total"),
                    figure(part(one, "cold_start"), "model", "%.3f"),
                    figure(check, "kl_divergence", "%.1e"), agreement,
                    check.empty() ? "-"
                    : first < 0   ? "none"
                                  : concat("token ", first)});
  }
  return rows.size() > 1 ? table_text(std::move(rows)) : "";
}

std::string memory(const Json& comparison) {
  Rows rows = {{"test", "framework", ">peak GB", ">weights", ">KV cache", ">workspace",
                ">framework", ">graphs", ">replays", ">kernels", ">cache MB", ">hit rate %"}};
  for (const Json& test : comparison.at("tests"))
    for (const Json& one : test.at("results")) {
      const Json& used = part(one, "memory");
      const Json& result = part(one, "result");
      char rate[32];
      std::snprintf(rate, sizeof(rate), "%.0f", 100 * result.value("kernel_cache_hit_rate", 0.));
      rows.push_back({word(test, "test"), word(one, "framework"), figure(used, "peak_gb", "%.3f"),
                      figure(used, "weights_gb", "%.3f"), figure(used, "kv_cache_gb", "%.3f"),
                      figure(used, "workspace_gb", "%.3f"), figure(used, "framework_gb", "%.3f"),
                      figure(part(one, "graphs"), "recorded", "%.0f"),
                      figure(part(one, "graphs"), "replays", "%.0f"),
                      figure(result, "kernel_cache_entries", "%.0f"),
                      figure(result, "kernel_cache_mb", "%.1f"), rate});
    }
  return rows.size() > 1 ? table_text(std::move(rows)) : "";
}

std::string unfair(const Json& from) {
  std::string out;
  for (const Json& reason : part(from, "unfair"))
    out += concat("UNFAIR: ", printable(reason.get<std::string>(), 300), "\n");
  return out;
}

std::string notes(const Json& comparison) {
  std::string out;
  for (const Json& one : comparison.at("frameworks")) {
    const std::string name = word(one, "name");
    if (one.at("status") != "measured") out += concat(name, " failed: ", word(one, "reason"), "\n");
    for (const char* list : {"refusals", "notes"})
      for (const Json& note : part(one, list))
        out += concat(name, ": ", printable(note.get<std::string>(), 300), "\n");
  }
  return out + unfair(comparison);
}

std::string baseline(const Json& against) {
  Rows rows = {
      {"against the baseline", ">before t/s", ">now t/s", ">ratio", ">95 % interval", "verdict"}};
  for (const Json& one : against.at("tests"))
    rows.push_back({word(one, "test"), figure(one, "baseline_ts"), figure(one, "median_ts"),
                    figure(one, "ratio", "%.3f"),
                    figure(one, "ratio_low", "%.3f") + " to " + figure(one, "ratio_high", "%.3f"),
                    word(one, "verdict")});
  return (rows.size() > 1 ? table_text(std::move(rows)) : "") + unfair(against);
}

}  // namespace

std::string suite_table(const Json& result) {
  std::string out;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) out += (out.empty() ? "" : "\n") + text;
  };
  for (const Json& comparison : result.at("comparisons")) {
    add(concat(word(comparison, "model"), " (", word(comparison, "path"), ")\n"));
    add(speeds(comparison));
    add(frameworks(comparison));
    add(memory(comparison));
    add(notes(comparison));
  }
  if (result.contains("baseline")) add(baseline(result.at("baseline")));
  const Json& machine = part(result, "machine");
  add(concat(word(machine, "cpu"), ", ", word(machine, "gpu"), "; tensora ",
             word(machine, "tensora"), ", ", word(machine, "compiler"), "; ", word(result, "time"),
             "\nrepeat: ", word(result, "command"), "\n"));
  return out;
}

}  // namespace tensora::cli
