#pragma once

// Timing on a machine that others use too: medians, samples with a forced context switch dropped,
// and the share of the processor that others took, so that a disturbed row can be seen.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace bench {

inline double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

inline long forced_switches() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

struct Timing {
  double median_s = 0;
  double best_s = 0;
  double mean_s = 0;  // of all samples, disturbed ones too: what a caller waits
  int samples = 0;
};

/// Times `body` for about `seconds`; calls too short for the clock are timed in groups.
template <class Body>
Timing measure(Body&& body, double seconds = 0.5) {
  for (int i = 0; i < 3; ++i) body();
  double start = now();
  body();
  const double once = now() - start;
  const int group = std::max(1, static_cast<int>(100e-6 / std::max(once, 1e-9)));
  std::vector<double> all, clean;
  start = now();
  while (now() - start < seconds || all.size() < 5) {
    const long switches = forced_switches();
    const double begin = now();
    for (int i = 0; i < group; ++i) body();
    const double taken = (now() - begin) / group;
    all.push_back(taken);
    if (forced_switches() == switches) clean.push_back(taken);
  }
  double total = 0;
  for (const double taken : all) total += taken;
  const double mean = total / static_cast<double>(all.size());
  std::vector<double>& kept = clean.size() >= 5 ? clean : all;
  std::sort(kept.begin(), kept.end());
  return {kept[kept.size() / 2], kept[0], mean, static_cast<int>(kept.size())};
}

/// One line per result, for bench/core.py.
inline void report(const char* name, double value, const char* unit, bool correct) {
  std::printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"correct\": %s}\n", name,
              value, unit, correct ? "true" : "false");
  std::fflush(stdout);
}

}  // namespace bench
