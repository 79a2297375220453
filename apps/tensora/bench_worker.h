#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "child_process.h"
#include "tensora/llm/benchmark.h"

namespace tensora::cli {

/// What a framework is asked to load; the same for all that are compared.
struct WorkerModel {
  std::string path = {};                  // a model on disk, or
  std::string synthetic = {}, type = {};  // a registered shape with random weights
  std::string quantize = {}, device = {}, level = {}, cache_type = {};
  std::vector<std::string> settings = {};
  int64_t threads = 0, context = 0;
};

/// One framework in a process of its own, on the side of the parent. Functions throw ChildError
/// with a sentence that names what the framework was doing, and Interrupted for Ctrl-C.
class BenchWorker {
 public:
  BenchWorker(std::string framework, double seconds);

  /// What was loaded: label, device, version, level, precision, sizes, seconds.
  nlohmann::json load(const WorkerModel& model);
  /// Seconds from the start of the process until the first token of a prompt of `prompt` tokens.
  nlohmann::json first_token(int64_t prompt);
  /// The most probable continuation of `tokens`.
  std::vector<int32_t> continue_greedily(const std::vector<int32_t>& tokens, int64_t count);
  /// Writes float32 logits to a file, [rows, vocabulary]: of all tokens, computed at once, then of
  /// those behind the first `prompt` ones, computed in decode steps.
  void write_logits(const std::vector<int32_t>& tokens, int64_t prompt, const std::string& file);
  /// Bytes per second that are read from a device's memory; needs no model.
  double bandwidth(const std::string& device);
  /// Opens the sequences of a test and runs it once, untimed.
  nlohmann::json open(const llm::BenchTest& test, int64_t batch, int64_t steps_at_once);
  /// Appends the times of one repetition; the processor time of all threads, in seconds.
  double repeat(llm::BenchSamples& samples);
  /// Ends a test: memory, graph and kernel-cache statistics.
  nlohmann::json close();
  /// Returns all memory and ends the process.
  void finish();

  const std::string& framework() const { return framework_; }
  pid_t pid() const { return process_.pid(); }

 private:
  nlohmann::json ask(const char* what, nlohmann::json request);

  std::string framework_;
  double seconds_;
  ChildProcess process_;
};

/// The child's side: answers requests from standard input until it ends.
void serve_bench_worker();

}  // namespace tensora::cli
