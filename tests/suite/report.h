#pragma once

#include <functional>

#include "tests/suite/options.h"

namespace tensora::suite {

enum class Outcome { passed, failed, skipped };

/// The outcome of one check: a case in a dtype in a mode.
struct Result {
  std::string op = {}, sample = {};
  std::string dtype = {};  // "-" where a mode has none
  Mode mode = Mode::value;
  Outcome outcome = Outcome::passed;
  std::string message = {};  // why it failed or was skipped, or what was measured
  double seconds = 0;
};

/// Collects outcomes: failures are printed at once, the rest is counted.
class Report {
 public:
  Report();

  /// Runs `body` and records how it ends; what it returns goes into the record.
  void run(Result what, const std::function<std::string()>& body);
  void skip(Result what, const std::string& reason);

  void print_summary() const;
  void write_json(const std::string& path, const Options& options) const;
  bool empty() const { return results_.empty(); }
  bool failed() const { return counts_[static_cast<size_t>(Outcome::failed)] != 0; }

 private:
  void add(Result result);
  void show_progress(const Result& current) const;

  std::vector<Result> results_;
  size_t counts_[3] = {};
  bool terminal_;
};

}  // namespace tensora::suite
