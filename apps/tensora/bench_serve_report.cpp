#ifdef TENSORA_HAS_SERVE

#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <sstream>
#include <thread>

#include "bench_serve.h"
#include "figures.h"
#include "tensora/base/check.h"
#include "tensora/train/chart.h"

namespace tensora::cli {
namespace {

using Json = nlohmann::ordered_json;

// The sums of all samples of a name in Prometheus' text.
std::map<std::string, double> metrics_of(const std::string& text) {
  std::map<std::string, double> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t end = line.find_first_of("{ "), value = line.rfind(' ');
    if (end == line.npos || value == line.npos) continue;
    out[line.substr(0, end)] += std::strtod(line.c_str() + value, nullptr);
  }
  return out;
}

std::string figure(const Json& record, const char* name, const char* format = "%.1f") {
  const auto found = record.find(name);
  if (found == record.end() || !found->is_number()) return "-";
  char text[64];
  std::snprintf(text, sizeof(text), format, found->get<double>());
  return text;
}

std::string pair_of(const Json& record, const std::string& name, const char* format = "%.1f") {
  return figure(record, ("p50_" + name + "_ms").c_str(), format) + " / " +
         figure(record, ("p99_" + name + "_ms").c_str(), format);
}

std::string megabytes(const Json& record, const char* name) {
  const auto found = record.find(name);
  if (found == record.end()) return "-";
  return bytes_text(found->get<double>());
}

// Tests are told apart by streams, or else by the rate of requests.
std::string load_text(const Json& record) {
  if (!record.at("max_concurrency").is_null()) return record.at("max_concurrency").dump();
  const Json& rate = record.at("request_rate");
  if (!rate.is_number()) return "all";
  if (!record.contains("ramp_up_end_rps")) return figure(record, "request_rate", "%g/s");
  return figure(record, "ramp_up_start_rps", "%g") + "-" +
         figure(record, "ramp_up_end_rps", "%g/s");
}

}  // namespace

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json server_state(const serve::LoadPlan& plan, bool waits) {
  Json out = Json::object();
  for (int turn = 0; turn < 100; ++turn) {
    const serve::PlainAnswer answer = serve::fetch(plan, "GET", "/metrics");
    if (answer.status != 200) return Json::object();
    const std::map<std::string, double> all = metrics_of(answer.body);
    out = Json::object();
    for (const char* name : {"num_requests_running", "num_requests_waiting", "open_answers",
                             "kv_cache_blocks_used", "kv_cache_usage_perc"}) {
      const auto found = all.find(std::string("tensora_") + name);
      if (found != all.end()) out[name] = found->second;
    }
    const double busy = out.value("num_requests_running", 0.0) + out.value("open_answers", 0.0);
    if (!waits || busy == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return out;
}

std::string progress_text(const Json& record) {
  return concat(load_text(record), " streams: ", record.at("completed").dump(), " completed, ",
                record.at("failed").dump(), " failed in ", figure(record, "duration", "%.2f"),
                " s");
}

std::string serve_table(const Json& records) {
  std::vector<std::vector<std::string>> speeds{
      {"streams", ">done", ">failed", ">tok/s", ">events/s", ">TTFT p50 / p99 ms",
       ">TPOT p50 / p99 ms", ">ITL p50 / p99 ms", ">E2EL p50 / p99 ms"}};
  std::vector<std::vector<std::string>> costs{{"streams", ">CPU us/event", ">without engine",
                                               ">client us/event", ">RSS before", ">RSS most",
                                               ">RSS after", ">threads", ">/health p50 / p99 ms"}};
  std::string notes;
  for (const Json& record : records) {
    speeds.push_back({load_text(record), record.at("completed").dump(), record.at("failed").dump(),
                      figure(record, "output_throughput", "%.0f"),
                      figure(record, "events_per_second", "%.0f"), pair_of(record, "ttft"),
                      pair_of(record, "tpot", "%.2f"), pair_of(record, "itl", "%.2f"),
                      pair_of(record, "e2el", "%.0f")});
    costs.push_back(
        {load_text(record), figure(record, "server_cpu_us_per_event"),
         figure(record, "server_own_cpu_us_per_event"), figure(record, "client_cpu_us_per_event"),
         megabytes(record, "server_rss_before_bytes"), megabytes(record, "server_rss_most_bytes"),
         megabytes(record, "server_rss_after_bytes"), figure(record, "server_threads_most", "%.0f"),
         pair_of(record, "health")});
    for (const auto& [error, count] : record.at("errors").items())
      notes +=
          concat(load_text(record), " streams: ", count.dump(), " x ", printable(error, 120), "\n");
    if (record.contains("vanished"))
      notes +=
          concat(load_text(record), " streams: ", record["vanished"].dump(), " vanished, ",
                 record["slow_readers"].dump(), " read slowly, ", record["rubbish_refused"].dump(),
                 " invalid requests refused, ", record["rubbish_accepted"].dump(), " accepted\n");
    if (record.contains("server_after"))
      notes += concat(load_text(record), " streams: KV blocks in use before and after: ",
                      figure(record["server_before"], "kv_cache_blocks_used", "%.0f"), ", ",
                      figure(record["server_after"], "kv_cache_blocks_used", "%.0f"), "\n");
  }
  return table_text(speeds) + "\n" + table_text(costs) + (notes.empty() ? "" : "\n" + notes);
}

std::string serve_svg(const Json& records) {
  train::RunHistory run;
  run.name = records.empty() ? "" : records[0].value("model_id", "");
  const std::pair<const char*, const char*> curves[] = {
      {"tokens per second over streams/output", "output_throughput"},
      {"time to first token, ms, over streams/median", "p50_ttft_ms"},
      {"time to first token, ms, over streams/p99", "p99_ttft_ms"},
      {"inter-token latency, ms, over streams/median", "p50_itl_ms"},
      {"inter-token latency, ms, over streams/p99", "p99_itl_ms"},
      {"health, ms, over streams/p99", "p99_health_ms"},
      {"server CPU per event, us, over streams/all", "server_cpu_us_per_event"}};
  for (const auto& [title, field] : curves) {
    train::Curve curve{title, {}, {}};
    for (const Json& record : records) {
      if (!record.contains(field)) continue;
      curve.steps.push_back(record.value("n_sequences", 1.0));
      curve.values.push_back(record[field].get<double>());
    }
    if (!curve.steps.empty()) run.curves.push_back(std::move(curve));
  }
  const std::vector<train::RunHistory> runs{run};
  return train::chart_svg(runs,
                          {.title = "tensora bench serve", .smoothing = 0, .x_label = "streams"});
}

}  // namespace tensora::cli

#endif
