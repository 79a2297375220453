#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/serve/service.h"

namespace tensora::serve {

/// A number that one thread adds to and others read.
class Counter {
 public:
  void add(uint64_t count = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

/// How often values were at most so large: a histogram in the sense of Prometheus. One thread adds,
/// others read.
class Histogram {
 public:
  static constexpr size_t kMostBounds = 24;
  explicit Histogram(std::span<const double> bounds);
  void add(double value, uint64_t count = 1);
  /// Appends `name`_bucket, _sum and _count with these labels: `model="a"`.
  void write(std::string& out, std::string_view name, const std::string& labels) const;
  uint64_t count() const;

 private:
  std::span<const double> bounds_;
  std::array<Counter, kMostBounds + 1> counts_;
  std::atomic<double> sum_ = 0;
};

enum class CancelCause : uint8_t { client_gone, shutdown };

/// What the answers of a model took. The thread that delivers adds.
struct AnswerMetrics {
  AnswerMetrics(std::string model_name, std::string framework_name);

  /// An answer has ended. Its tokens are counted as they come, not here.
  void add(const Answer& answer);
  void add_failure() { failures.add(); }
  void add_cancelled(CancelCause cause) { cancelled[static_cast<size_t>(cause)].add(); }

  const std::string model, framework;
  Counter prompt_tokens, cached_tokens, generation_tokens;
  Counter drafted_tokens, accepted_tokens, preemptions, failures;
  std::array<Counter, 4> ended;      // stop, length, tool_calls, deadline
  std::array<Counter, 2> cancelled;  // by cause
  Histogram first_token, between_tokens, per_token, total, queued, prefill, decode;
  Histogram request_prompt, request_generation;
};

/// What is known when the figures are asked for, beside what was counted.
struct ModelGauges {
  const AnswerMetrics* metrics = nullptr;
  const ServedModel* model = nullptr;  // null: it is not loaded now
};

/// All figures in Prometheus' text format.
std::string prometheus_text(const ServiceLoad& load, std::span<const ModelGauges> models);

}  // namespace tensora::serve
