#include "tensora/serve/load_report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

using Json = nlohmann::ordered_json;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// "99", "99.9"
std::string percent_text(double percent) {
  std::ostringstream out;
  out << percent;
  return out.str();
}

struct Samples {
  std::vector<double> ttft, tpot, itl, e2el;  // milliseconds
  int64_t completed = 0, failed = 0, good = 0, input = 0, output = 0, events = 0;
};

Samples samples_of(const LoadResult& result, const ServiceLevel& level) {
  Samples out;
  for (const RequestRecord& one : result.requests) {
    out.events += one.events;
    if (one.manner != Manner::proper) continue;
    if (!one.is_complete) {
      ++out.failed;
      continue;
    }
    ++out.completed;
    out.input += one.prompt_tokens;
    out.output += one.output_tokens;
    if (one.events == 0) continue;
    const double ttft = 1e3 * (one.first - one.begin), e2el = 1e3 * (one.last - one.begin);
    const double tpot =
        one.output_tokens > 1 ? (e2el - ttft) / static_cast<double>(one.output_tokens - 1) : 0;
    out.ttft.push_back(ttft);
    out.e2el.push_back(e2el);
    if (one.output_tokens > 1) out.tpot.push_back(tpot);
    for (const float gap : one.gaps) out.itl.push_back(1e3 * static_cast<double>(gap));
    const auto keeps = [](double value, double limit) { return limit <= 0 || value <= limit; };
    out.good += keeps(ttft, level.ttft) && keeps(tpot, level.tpot) && keeps(e2el, level.e2el);
  }
  return out;
}

void add_distribution(Json& out, const std::string& name, std::vector<double> values,
                      const std::vector<double>& percentiles) {
  const Distribution found = distribution_of(std::move(values), percentiles);
  out["mean_" + name + "_ms"] = found.mean;
  out["median_" + name + "_ms"] = found.median;
  out["std_" + name + "_ms"] = found.deviation;
  for (size_t i = 0; i < percentiles.size(); ++i)
    out["p" + percent_text(percentiles[i]) + "_" + name + "_ms"] = found.percentiles[i];
}

// Output tokens per second in the tenths of the test, from the events: what `--compare` judges by.
std::vector<double> speeds_of(const LoadResult& result) {
  constexpr int parts = 10;
  double last = 0;
  for (const RequestRecord& one : result.requests) last = std::max(last, one.last);
  std::vector<double> counts(parts);
  for (const RequestRecord& one : result.requests) {
    if (one.events == 0 || last <= 0) continue;
    const double tokens = static_cast<double>(std::max(one.output_tokens, one.events)) /
                          static_cast<double>(one.events);
    double time = one.first;
    for (size_t i = 0; i <= one.gaps.size(); ++i) {
      counts[std::min<size_t>(parts - 1, static_cast<size_t>(time / last * parts))] += tokens;
      if (i < one.gaps.size()) time += static_cast<double>(one.gaps[i]);
    }
  }
  for (double& count : counts) count *= last > 0 ? parts / last : 0;
  return counts;
}

void add_chaos(Json& out, const LoadResult& result) {
  int64_t vanished = 0, slow = 0, refused = 0, accepted = 0;
  for (const RequestRecord& one : result.requests) {
    vanished += one.manner == Manner::vanishing;
    slow += one.manner == Manner::slow;
    if (one.manner != Manner::rubbish) continue;
    ++(one.status >= 200 && one.status < 300 ? accepted : refused);
  }
  if (vanished + slow + refused + accepted == 0) return;
  out["vanished"] = vanished;
  out["slow_readers"] = slow;
  out["rubbish_refused"] = refused;
  out["rubbish_accepted"] = accepted;
}

void add_process(Json& out, const LoadSurroundings& around, int64_t events) {
  if (!around.knows_process) return;
  const double cpu = around.after.cpu_seconds - around.before.cpu_seconds;
  const auto per_event = [&](double seconds) {
    return events > 0 ? 1e6 * seconds / static_cast<double>(events) : 0;
  };
  out["server_cpu_seconds"] = cpu;
  out["server_cpu_us_per_event"] = per_event(cpu);
  Json by_thread = Json::object();
  double own = 0;  // of the server's own threads, where it is ours
  for (const auto& [name, seconds] : around.after.cpu_by_thread) {
    const auto found = around.before.cpu_by_thread.find(name);
    const double used = seconds - (found == around.before.cpu_by_thread.end() ? 0 : found->second);
    if (used > 0) by_thread[name] = per_event(used);
    if (name.starts_with("serve-")) own += used;
  }
  out["server_own_cpu_us_per_event"] = own > 0 ? Json(per_event(own)) : Json(nullptr);
  out["server_cpu_us_per_event_by_thread"] = by_thread;
  out["server_rss_before_bytes"] = around.before.resident_bytes;
  out["server_rss_most_bytes"] = around.most_resident_bytes;
  out["server_rss_after_bytes"] = around.after.resident_bytes;
  out["server_threads_before"] = around.before.threads;
  out["server_threads_most"] = around.most_threads;
}

void add_details(Json& out, const LoadResult& result) {
  Json ttfts = Json::array(), itls = Json::array(), inputs = Json::array(), outputs = Json::array();
  for (const RequestRecord& one : result.requests) {
    if (one.manner != Manner::proper) continue;
    inputs.push_back(one.prompt_tokens);
    outputs.push_back(one.output_tokens);
    ttfts.push_back(one.events > 0 ? one.first - one.begin : 0);
    itls.push_back(one.gaps);
  }
  out["input_lens"] = inputs;
  out["output_lens"] = outputs;
  out["ttfts"] = ttfts;
  out["itls"] = itls;
}

}  // namespace

Distribution distribution_of(std::vector<double> values, const std::vector<double>& percentiles) {
  Distribution out;
  out.percentiles.resize(percentiles.size());
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const auto at = [&](double percent) {
    const double place = percent / 100 * (count - 1);
    const auto low = static_cast<size_t>(place);
    const size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (values[high] - values[low]) * (place - std::floor(place));
  };
  out.mean = sum(values) / count;
  out.median = at(50);
  double squares = 0;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  out.deviation = std::sqrt(squares / count);
  for (size_t i = 0; i < percentiles.size(); ++i) out.percentiles[i] = at(percentiles[i]);
  return out;
}

ProcessUse process_use(int64_t pid) {
  const std::filesystem::path folder = "/proc/" + std::to_string(pid);
  ProcessUse out;
  std::ifstream statm(folder / "statm");
  int64_t size = 0, resident = 0;
  check(bool(statm >> size >> resident), "load: there is no process ", pid);
  out.resident_bytes = resident * sysconf(_SC_PAGESIZE);
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(folder / "task", error)) {
    ++out.threads;
    std::ifstream name_file(task.path() / "comm"), time_file(task.path() / "schedstat");
    std::string name;
    double nanoseconds = 0;
    if (std::getline(name_file, name) && time_file >> nanoseconds)
      out.cpu_by_thread[name] += nanoseconds * 1e-9;
  }
  // The times of the whole process also hold those of threads that have ended.
  std::ifstream stat(folder / "stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream fields(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  out.cpu_seconds = (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return out;
}

Json load_report(const LoadPlan& plan, const LoadResult& result,
                 const LoadSurroundings& surroundings, const std::vector<double>& percentiles,
                 const ServiceLevel& level, bool detailed) {
  const Samples samples = samples_of(result, level);
  const auto per_second = [&](double count) {
    return result.seconds > 0 ? count / result.seconds : 0;
  };
  Json out;
  out["model_id"] = plan.model;
  out["num_prompts"] = plan.requests;
  out["request_rate"] = std::isfinite(plan.rate) ? Json(plan.rate) : Json("inf");
  if (plan.last_rate > 0) {
    out["ramp_up_strategy"] = plan.exponential_ramp ? "exponential" : "linear";
    out["ramp_up_start_rps"] = plan.rate;
    out["ramp_up_end_rps"] = plan.last_rate;
  }
  out["burstiness"] = plan.burstiness;
  out["max_concurrency"] = plan.concurrency > 0 ? Json(plan.concurrency) : Json(nullptr);
  out["duration"] = result.seconds;
  out["completed"] = samples.completed;
  out["failed"] = samples.failed;
  out["total_input_tokens"] = samples.input;
  out["total_output_tokens"] = samples.output;
  out["request_throughput"] = per_second(static_cast<double>(samples.completed));
  const bool has_level = level.ttft > 0 || level.tpot > 0 || level.e2el > 0;
  out["request_goodput"] =
      has_level ? Json(per_second(static_cast<double>(samples.good))) : Json(nullptr);
  out["output_throughput"] = per_second(static_cast<double>(samples.output));
  out["total_token_throughput"] = per_second(static_cast<double>(samples.input + samples.output));
  out["max_concurrent_requests"] = result.most_at_once;
  add_distribution(out, "ttft", samples.ttft, percentiles);
  add_distribution(out, "tpot", samples.tpot, percentiles);
  add_distribution(out, "itl", samples.itl, percentiles);
  add_distribution(out, "e2el", samples.e2el, percentiles);
  Json errors = Json::object();
  for (const RequestRecord& one : result.requests)
    if (one.manner == Manner::proper && !one.is_complete)
      errors[one.error] = errors.value(one.error, int64_t{0}) + 1;
  out["errors"] = errors;
  out["events"] = samples.events;
  out["events_per_second"] = per_second(static_cast<double>(samples.events));
  std::vector<double> health = result.health;
  for (double& time : health) time *= 1e3;
  if (!health.empty() || result.failed_health > 0) {
    add_distribution(out, "health", health, percentiles);
    out["failed_health"] = result.failed_health;
  }
  add_chaos(out, result);
  add_process(out, surroundings, samples.events);
  out["client_threads"] = result.threads;
  out["client_connections"] = result.connections;
  out["client_cpu_us_per_event"] =
      samples.events > 0 ? 1e6 * result.client_cpu_seconds / static_cast<double>(samples.events)
                         : 0;
  out["samples_ts"] = speeds_of(result);
  if (detailed) add_details(out, result);
  return out;
}

}  // namespace tensora::serve
