#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tensora/llm/benchmark.h"

namespace tensora::cli {

/// A test that was run: everything that is needed to read its figures and to run it again.
struct BenchRecord {
  std::string model_path, command;
  llm::ModelSummary model;
  llm::BenchTest test;
  llm::BenchSamples samples;
  llm::BenchmarkResult result;
  std::string framework, device, cpu, gpu, version, time;
  std::string cache_type;
  int64_t batch = 0, threads = 0;
  double bytes_per_second = 0;  // read while generating; 0 if nothing was generated
  double bandwidth = 0;         // that was measured; 0 if not

  /// One object under llama-bench's names; what it does not know comes after, BenchmarkResult's
  /// fields in "result".
  nlohmann::ordered_json to_json() const;
};

/// All records in a format: md, csv, json or jsonl.
std::string format_records(const std::vector<BenchRecord>& records, const std::string& format);
/// The table of llama-batched-bench for records of several sequences: a line per record.
std::string batched_table(const std::vector<BenchRecord>& records);
/// A picture of the speeds over what varies: depth, sequences, threads, batch or prompt.
std::string bench_svg(const std::vector<BenchRecord>& records);

/// "512,1024", "1-4", "128-512+128" and "1-64*2": lists and ranges, as llama-bench reads them.
std::vector<int64_t> parse_numbers(const std::string& text, const std::string& option);

/// Compares two files of `--output json` or jsonl, test by test, with a verdict for each; true if
/// nothing became slower.
bool compare_records(const std::string& before, const std::string& after, std::string& out);
/// The same of their texts; `before` and `after` are what errors call them.
bool compare_record_texts(const std::string& before, const std::string& old_text,
                          const std::string& after, const std::string& new_text, std::string& out);

}  // namespace tensora::cli
