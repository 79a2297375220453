#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensora/base/atomic.h"

namespace tensora {

/// Collects the time ranges of ops and of the user's own scopes while it exists.
class Profiler {
 public:
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Writes what was collected as Chrome trace JSON (chrome://tracing, Perfetto).
  void write_chrome_trace(const std::string& path) const;
  /// A table of ops by the time spent in them and not in ranges within: calls, that time and its
  /// share, and the time of everything. Times are the host's: work that a GPU has yet to do is not
  /// in them (docs/cuda.md, "Seeing what runs").
  std::string table(int rows = 20) const;
};

/// Extra observers of ranges (NVTX on CUDA).
struct RangeObserver {
  void (*begin)(const char* name);
  void (*end)();
};
void set_range_observer(const RangeObserver* observer);

namespace detail {
inline Atomic<bool> profiling{false};
void begin_range(std::string_view name);
void end_range();
}  // namespace detail

/// A named range around a piece of work: `ProfilerRange range("attention");`
class ProfilerRange {
 public:
  explicit ProfilerRange(std::string_view name) : active_(detail::profiling.load_relaxed()) {
    if (active_) [[unlikely]]
      detail::begin_range(name);
  }
  ~ProfilerRange() {
    if (active_) [[unlikely]]
      detail::end_range();
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  bool active_;
};

}  // namespace tensora
