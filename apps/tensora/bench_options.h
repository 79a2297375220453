#pragma once

#include <string>
#include <vector>

#include "bench_record.h"
#include "model_options.h"

namespace tensora::cli {

/// What `tensora bench` was asked for.
struct BenchSettings {
  ModelOptions model;
  std::vector<std::string> models, synthetic;
  std::string types = "q4_k_m", prompts = "512", generated = "128", depths = "0", batches = "512",
              threads, sequences = "1";
  std::vector<std::string> both, compared;
  std::string output = "md", file, plot;
  int64_t repetitions = 5, steps_at_once = 1;
  bool batched = false, warms_up = true, measures_bandwidth = true;
  // Of comparisons between frameworks.
  std::string html, baseline, threshold = "5%", saved;
  bool unfair = false, busy = false, is_worker = false;
  double seconds = 300;
  // Which of the sizes were given: those that were not shrink to what a model can hold.
  const CLI::Option *prompt_option = nullptr, *generate_option = nullptr;
};

/// The tests in llama-bench's order: prompts, then generation, then both.
std::vector<llm::BenchTest> tests_of(const BenchSettings& settings);
/// A test by default sizes, made to fit a model of few positions; says so.
llm::BenchTest fitted(llm::BenchTest test, const BenchSettings& settings, int64_t positions);

/// Whether several frameworks are to be measured, or one with a report or a baseline.
bool compares_frameworks(const BenchSettings& settings);
void compare_frameworks(const BenchSettings& settings);

}  // namespace tensora::cli
