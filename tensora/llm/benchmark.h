#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tensora/llm/metrics.h"
#include "tensora/llm/model.h"
#include "tensora/llm/sequence_session.h"

namespace tensora::llm {

class FrameworkBackend;

/// What is timed: `prompt` tokens are read and then `generate` tokens computed one by one, behind
/// `depth` tokens that are already there, by `sequences` sequences at once. llama-bench's tests.
struct BenchTest {
  int64_t prompt = 0, generate = 0, depth = 0, sequences = 1;

  /// "pp512", "tg128 @ d4096", "pp512+tg128", "tg128 x32"
  std::string name() const;
  /// Tokens that count for the speed.
  int64_t tokens() const { return (prompt + generate) * sequences; }
  void check_valid() const;
  bool operator==(const BenchTest&) const = default;
};

struct BenchOptions {
  int64_t repetitions = 5;
  int64_t batch = 512;  // tokens of a prompt that are computed at once
  std::optional<DType> cache_dtype = {};
  bool warms_up = true;
  int64_t block_size = 32;
  /// Tokens that are queued before the host looks at them, as the engine can do; 0: as many as are
  /// good on the model's device. From two on the model itself chooses them.
  int64_t steps_at_once = 1;
};

/// The times of a test, in seconds. Tokenizing is not in them; waiting for the device is. Tokens
/// are random where one step is queued at a time, and else the most likely ones, chosen on the
/// device.
struct BenchSamples {
  std::vector<double> total;   // of each repetition
  std::vector<double> prompt;  // its part for the prompt
  std::vector<double> steps;   // of all repetitions: each step of generation

  std::vector<double> speeds(const BenchTest& test) const;  // tokens per second
};

/// A test on one backend, repetition by repetition, so that several frameworks can take turns. All
/// of them compute the same tokens. `backend` has loaded a model and can compute given tokens
/// (open_sequences).
class BenchCourse {
 public:
  BenchCourse(FrameworkBackend& backend, const BenchTest& test, const BenchOptions& options);

  /// A prompt, untimed: pages are touched, kernels loaded, clocks raised. On a GPU a whole
  /// repetition: its first steps choose algorithms and record graphs, for each number of sequences.
  void warm_up();
  /// Appends the times of one repetition.
  void repeat(BenchSamples& samples);
  const SequenceSession& session() const { return *session_; }

 private:
  void go_to_depth();
  double read_prompt();
  void generate(std::vector<double>& steps);
  int32_t random_token();
  std::vector<int32_t> random_tokens(int64_t count);

  BenchTest test_;
  int64_t at_once_;
  bool is_on_cpu_;
  std::unique_ptr<SequenceSession> session_;
  int64_t vocabulary_;
  std::vector<int32_t> depth_;
  std::mt19937_64 random_{1};
};

/// `backend` has loaded a model and can compute given tokens (open_sequences).
BenchSamples run_benchmark(FrameworkBackend& backend, const BenchTest& test,
                           const BenchOptions& options);

/// The figures of a test under the names of BenchmarkResult, beside what is known already.
BenchmarkResult result_of(const BenchTest& test, const BenchSamples& samples,
                          BenchmarkResult known = {});

/// Bytes per second that a device reads from its memory at best: what bounds generation.
double measured_bandwidth(Device device);
/// Bytes that one step of generation reads: the weights, but for an embedding that is only looked
/// up, and the keys and values at that depth.
double bytes_per_step(const ModelSummary& summary, const ModelConfig& config, const BenchTest& test,
                      DType cache_dtype);

}  // namespace tensora::llm
