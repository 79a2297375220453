#pragma once

#include <span>
#include <string>
#include <vector>

#include "tensora/llm/execution_report.h"
#include "tensora/llm/memory_tracker.h"
#include "tensora/llm/request.h"

namespace tensora::llm {

class Model;
class ModelFile;

/// What there is to say about a model in a table.
struct ModelSummary {
  std::string name = {};       // "llama 1.24B q4_k"
  std::string precision = {};  // the dtype that most bytes of the weights have
  int64_t parameters = 0;
  int64_t bytes = 0;       // of the weights
  int64_t read_bytes = 0;  // of these, what a generated token reads
};
/// `quantize` as in LoadOptions.
ModelSummary summary_of(const ModelFile& file, const Model& model, const std::string& quantize);
/// Of a synthetic model.
ModelSummary summary_of(const std::string& shape, const std::string& type, const Model& model);

/// What a benchmark of a framework with a model found. Times in seconds.
struct BenchmarkResult {
  std::string framework;   // "native-cpu"
  std::string model_size;  // "1.24B"
  int64_t iterations = 0;
  double total_time = 0;
  double first_token_time = 0;  // the mean over the iterations
  double avg_token_time = 0, min_token_time = 0, max_token_time = 0;
  double avg_tokens_per_second = 0, peak_tokens_per_second = 0;
  double peak_memory_gb = 0;   // since the baseline
  double model_memory_gb = 0;  // the weights
  std::string precision;       // "q4_k"
  std::string optimization_level;
  double jit_compilation_time = 0;
  double model_loading_time = 0;
  int64_t kernel_cache_entries = 0;  // kernels that were compiled at run time
  double kernel_cache_mb = 0, kernel_cache_hit_rate = 0;

  /// A JSON object with these names.
  std::string to_json() const;
};

/// Collects what answers took, and the memory they took it in: the same for every front end.
class PerformanceMetrics {
 public:
  /// The baseline of memory is now: before the model is loaded.
  explicit PerformanceMetrics(Device device = {});

  void set_loading(double seconds) { result_.model_loading_time = seconds; }
  void set_kernel_cache(const KernelCacheStats& stats);
  void describe(const std::string& framework, const ModelSummary& model);
  void add(const Completion& completion);
  /// The figures of all answers so far.
  BenchmarkResult result();
  MemoryTracker& memory() { return memory_; }

 private:
  MemoryTracker memory_;
  BenchmarkResult result_;
  double first_tokens_ = 0, following_time_ = 0;
  int64_t following_ = 0;
};

/// "7.00B", "1.24B", "15.2M", "260K"
std::string count_text(double count);
/// How this library and machine run models: "release, avx2".
std::string optimization_text();

/// Mean and standard deviation (of a sample).
struct Spread {
  double mean = 0, deviation = 0;
};
Spread spread_of(std::span<const double> values);
/// The value below which `share` of the values lie, by interpolation; 0 of none.
double percentile(std::vector<double> values, double share);

}  // namespace tensora::llm
