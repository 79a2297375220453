#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "tensora/serve/load_plan.h"

namespace tensora::serve {

/// Mean, spread and percentiles, as numpy computes them: the deviation of the whole, percentiles
/// interpolated between neighbours. All 0 for no values.
struct Distribution {
  double mean = 0, median = 0, deviation = 0;
  std::vector<double> percentiles;  // those that were asked for
};
Distribution distribution_of(std::vector<double> values, const std::vector<double>& percentiles);

/// What the server's process has used; from /proc.
struct ProcessUse {
  double cpu_seconds = 0;
  std::map<std::string, double> cpu_by_thread = {};  // by the threads' names
  int64_t resident_bytes = 0, threads = 0;
};
/// Throws Error where there is no such process.
ProcessUse process_use(int64_t pid);

/// Limits that a request must keep to count for the goodput, milliseconds; 0: none.
struct ServiceLevel {
  double ttft = 0, tpot = 0, e2el = 0;
};

/// What was measured beside the requests.
struct LoadSurroundings {
  bool knows_process = false;
  ProcessUse before = {}, after = {};
  int64_t most_resident_bytes = 0, most_threads = 0;
};

/// The figures of a test under the names of vLLM's `bench serve`, then ours. `detailed`: with the
/// times of all requests.
nlohmann::ordered_json load_report(const LoadPlan& plan, const LoadResult& result,
                                   const LoadSurroundings& surroundings,
                                   const std::vector<double>& percentiles,
                                   const ServiceLevel& level, bool detailed);

}  // namespace tensora::serve
