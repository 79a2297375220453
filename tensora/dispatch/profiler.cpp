#include "tensora/dispatch/profiler.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

#include "tensora/base/check.h"

namespace tensora {
namespace {

struct Event {
  std::string name;
  uint32_t thread;
  double begin_us;
  double duration_us;
};

struct OpenRange {
  std::string name;
  double begin_us;
};

std::mutex events_mutex;
std::vector<Event> events;
std::atomic<uint32_t> next_thread{0};
std::atomic<const RangeObserver*> observer{nullptr};
std::atomic<bool> collecting{false};

// Ranges go to a profiler, which records them, and to an observer, which is only notified.
void update_profiling() {
  detail::profiling.store(collecting.load() || observer.load() != nullptr);
}

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

struct ThreadRanges {
  uint32_t thread = next_thread++;
  std::vector<OpenRange> open;
};
ThreadRanges& thread_ranges() {
  thread_local ThreadRanges ranges;
  return ranges;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (static_cast<unsigned char>(letter) >= 0x20) result += letter;
  }
  return result;
}

}  // namespace

namespace detail {

void begin_range(std::string_view name) {
  ThreadRanges& ranges = thread_ranges();
  ranges.open.push_back({std::string(name), now_us()});
  if (const RangeObserver* extra = observer.load()) extra->begin(ranges.open.back().name.c_str());
}

void end_range() {
  ThreadRanges& ranges = thread_ranges();
  if (ranges.open.empty()) return;
  OpenRange range = std::move(ranges.open.back());
  ranges.open.pop_back();
  if (const RangeObserver* extra = observer.load()) extra->end();
  if (!collecting.load(std::memory_order_relaxed)) return;
  const double duration = now_us() - range.begin_us;
  std::lock_guard lock(events_mutex);
  events.push_back({std::move(range.name), ranges.thread, range.begin_us, duration});
}

}  // namespace detail

void set_range_observer(const RangeObserver* extra) {
  observer.store(extra);
  update_profiling();
}

Profiler::Profiler() {
  std::lock_guard lock(events_mutex);
  check(!collecting.exchange(true), "Profiler: another profiler is already running");
  events.clear();
  update_profiling();
}

Profiler::~Profiler() {
  collecting.store(false);
  update_profiling();
}

void Profiler::write_chrome_trace(const std::string& path) const {
  std::ofstream file(path);
  std::lock_guard lock(events_mutex);
  file << "{\"traceEvents\":[";
  const char* separator = "\n";
  for (const Event& event : events) {
    file << separator << "{\"name\":\"" << escaped(event.name)
         << "\",\"ph\":\"X\",\"pid\":0,\"tid\":" << event.thread << ",\"ts\":" << std::fixed
         << event.begin_us << ",\"dur\":" << event.duration_us << "}";
    separator = ",\n";
  }
  file << "\n]}\n";
  file.close();
  check(file.good(), "Profiler: the trace could not be written to '", path, "'");
}

std::string Profiler::table(int rows) const {
  struct Total {
    std::string name;
    uint64_t calls = 0;
    double total_us = 0;
  };
  std::map<std::string, Total> totals;
  {
    std::lock_guard lock(events_mutex);
    for (const Event& event : events) {
      Total& total = totals[event.name];
      total.name = event.name;
      ++total.calls;
      total.total_us += event.duration_us;
    }
  }
  std::vector<Total> sorted;
  for (auto& [name, total] : totals) sorted.push_back(total);
  std::sort(sorted.begin(), sorted.end(),
            [](const Total& a, const Total& b) { return a.total_us > b.total_us; });
  char line[160];
  std::snprintf(line, sizeof line, "%-28s %10s %12s %12s\n", "op", "calls", "total ms", "mean us");
  std::string result = line;
  for (size_t i = 0; i < sorted.size() && i < static_cast<size_t>(rows); ++i) {
    const Total& total = sorted[i];
    std::snprintf(line, sizeof line, "%-28s %10llu %12.3f %12.3f\n", total.name.c_str(),
                  static_cast<unsigned long long>(total.calls), total.total_us / 1e3,
                  total.total_us / static_cast<double>(total.calls));
    result += line;
  }
  return result;
}

}  // namespace tensora
