#include "tensora/llm/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "tensora/backend/cpu/isa.h"
#include "tensora/llm/model.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/registry.h"

namespace tensora::llm {

std::string count_text(double count) {
  const struct {
    double unit;
    const char* name;
  } units[] = {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}};
  char text[32];
  for (const auto& [unit, name] : units)
    if (count >= unit) {
      const double value = count / unit;
      std::snprintf(text, sizeof(text),
                    value < 10    ? "%.2f%s"
                    : value < 100 ? "%.1f%s"
                                  : "%.0f%s",
                    value, name);
      return text;
    }
  std::snprintf(text, sizeof(text), "%.0f", count);
  return text;
}

ModelSummary summary_of(const ModelFile& file, const Model& model, const std::string& quantize) {
  ModelSummary summary{.bytes = model.bytes()};
  const ModelConfig& config = model.config();
  std::map<DType, uint64_t> bytes;
  double read = 0, all = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    int64_t numbers = 1;
    for (const int64_t size : tensor.sizes) numbers *= size;
    summary.parameters += numbers;
    bytes[tensor.dtype] += tensor.bytes;
    // An embedding is only looked up, unless it makes the logits, too; of experts a few are used.
    double share = 1;
    if (tensor.name == "token_embd.weight" && file.contains("output.weight")) share = 0;
    if (config.experts > 0 && tensor.name.find("_exps") != std::string::npos)
      share = static_cast<double>(config.experts_used) / static_cast<double>(config.experts);
    all += static_cast<double>(tensor.bytes);
    read += static_cast<double>(tensor.bytes) * share;
  }
  if (all > 0)
    summary.read_bytes = static_cast<int64_t>(static_cast<double>(summary.bytes) * read / all);
  summary.precision = quantize;
  if (quantize.empty() && !bytes.empty())
    summary.precision =
        name(std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) {
               return a.second < b.second;
             })->first);
  summary.name =
      concat(file.architecture(), " ", count_text(static_cast<double>(summary.parameters)), " ",
             summary.precision);
  return summary;
}

ModelSummary summary_of(const std::string& shape, const std::string& type, const Model& model) {
  const RegistryEntry& entry = find_registered(shape);
  const ModelConfig& config = model.config();
  ModelSummary summary{.name = concat(shape, " ", type),
                       .precision = type,
                       .parameters = entry.parameters(),
                       .bytes = model.bytes()};
  double unread =
      entry.details.tied ? 0 : static_cast<double>(config.vocab_size * config.hidden_size);
  if (config.experts > 0)
    unread += 3. * static_cast<double>(config.layers * config.hidden_size * config.feed_forward) *
              static_cast<double>(config.experts - config.experts_used);
  summary.read_bytes = static_cast<int64_t>(static_cast<double>(summary.bytes) *
                                            (1 - unread / static_cast<double>(summary.parameters)));
  return summary;
}

std::string optimization_text() {
#ifdef NDEBUG
  const char* build = "release";
#else
  const char* build = "debug";
#endif
  // As in build_info(), which would open libraries that models may never need.
  return concat(build, ", ", cpu::name(cpu::cpu_isa()), cpu::multiplies_tiles() ? ", amx" : "");
}

std::string BenchmarkResult::to_json() const {
  nlohmann::ordered_json out;
  out["framework"] = framework;
  out["model_size"] = model_size;
  out["iterations"] = iterations;
  out["total_time"] = total_time;
  out["first_token_time"] = first_token_time;
  out["avg_token_time"] = avg_token_time;
  out["min_token_time"] = min_token_time;
  out["max_token_time"] = max_token_time;
  out["avg_tokens_per_second"] = avg_tokens_per_second;
  out["peak_tokens_per_second"] = peak_tokens_per_second;
  out["peak_memory_gb"] = peak_memory_gb;
  out["model_memory_gb"] = model_memory_gb;
  out["precision"] = precision;
  out["optimization_level"] = optimization_level;
  out["jit_compilation_time"] = jit_compilation_time;
  out["model_loading_time"] = model_loading_time;
  out["kernel_cache_entries"] = kernel_cache_entries;
  out["kernel_cache_mb"] = kernel_cache_mb;
  out["kernel_cache_hit_rate"] = kernel_cache_hit_rate;
  return out.dump();
}

PerformanceMetrics::PerformanceMetrics(Device device) : memory_(device) {
  result_.optimization_level = optimization_text();
}

void PerformanceMetrics::set_kernel_cache(const KernelCacheStats& stats) {
  result_.jit_compilation_time = stats.compile_seconds;
  result_.kernel_cache_entries = stats.entries;
  result_.kernel_cache_mb = static_cast<double>(stats.bytes) / 1e6;
  result_.kernel_cache_hit_rate = stats.hit_rate();
}

void PerformanceMetrics::describe(const std::string& framework, const ModelSummary& model) {
  result_.framework = framework;
  result_.model_size = count_text(static_cast<double>(model.parameters));
  result_.model_memory_gb = static_cast<double>(model.bytes) / 1e9;
  result_.precision = model.precision;
}

void PerformanceMetrics::add(const Completion& completion) {
  const Timings& timings = completion.timings;
  memory_.sample();
  ++result_.iterations;
  result_.total_time += timings.total;
  first_tokens_ += timings.first_token;
  if (completion.usage.completion_tokens < 2) return;
  following_ += completion.usage.completion_tokens - 1;
  following_time_ += timings.predicted;
  const bool is_first = result_.max_token_time == 0;
  result_.min_token_time =
      is_first ? timings.min_token : std::min(result_.min_token_time, timings.min_token);
  result_.max_token_time = std::max(result_.max_token_time, timings.max_token);
}

BenchmarkResult PerformanceMetrics::result() {
  BenchmarkResult result = result_;
  if (result.iterations > 0)
    result.first_token_time = first_tokens_ / static_cast<double>(result.iterations);
  if (following_ > 0 && following_time_ > 0) {
    result.avg_token_time = following_time_ / static_cast<double>(following_);
    result.avg_tokens_per_second = 1 / result.avg_token_time;
  }
  if (result.min_token_time > 0) result.peak_tokens_per_second = 1 / result.min_token_time;
  for (const MemoryTracker::Reading& reading : memory_.read())
    result.peak_memory_gb += static_cast<double>(reading.peak_delta()) / 1e9;
  return result;
}

Spread spread_of(std::span<const double> values) {
  Spread spread;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / count;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

}  // namespace tensora::llm
