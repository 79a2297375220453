#include "tensora/dispatch/profiler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <span>
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
  detail::profiling.store_relaxed(collecting.load() || observer.load() != nullptr);
}

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

// Set when the calling thread's ranges are destroyed; later destructors are not recorded.
thread_local constinit bool ranges_are_gone = false;

struct ThreadRanges {
  uint32_t thread = next_thread++;
  std::vector<OpenRange> open;

  ThreadRanges() = default;
  ThreadRanges(const ThreadRanges&) = delete;
  ThreadRanges& operator=(const ThreadRanges&) = delete;
  ~ThreadRanges() { ranges_are_gone = true; }
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
  if (ranges_are_gone) return;
  ThreadRanges& ranges = thread_ranges();
  ranges.open.push_back({std::string(name), now_us()});
  if (const RangeObserver* extra = observer.load()) extra->begin(ranges.open.back().name.c_str());
}

void end_range() {
  if (ranges_are_gone) return;
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

namespace {

struct Total {
  uint64_t calls = 0;
  double total_us = 0;
  double self_us = 0;  // without the ranges within
};

// Ranges of one thread lie within one another or apart, and end in the order in which they are
// listed: what a range encloses stands directly before it.
std::map<std::string, Total> totals_of(std::span<const Event> all) {
  std::map<std::string, Total> totals;
  std::map<uint32_t, std::vector<const Event*>> enclosed;  // by thread; no outer range seen yet
  for (const Event& event : all) {
    Total& total = totals[event.name];
    ++total.calls;
    total.total_us += event.duration_us;
    total.self_us += event.duration_us;
    std::vector<const Event*>& open = enclosed[event.thread];
    while (!open.empty() && open.back()->begin_us >= event.begin_us) {
      total.self_us -= open.back()->duration_us;
      open.pop_back();
    }
    open.push_back(&event);
  }
  return totals;
}

}  // namespace

std::string Profiler::table(int rows) const {
  std::vector<std::pair<std::string, Total>> sorted;
  double all_us = 0;
  {
    std::lock_guard lock(events_mutex);
    for (auto& [name, total] : totals_of(events)) {
      all_us += total.self_us;
      sorted.emplace_back(name, total);
    }
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.self_us > b.second.self_us; });
  char line[160];
  std::snprintf(line, sizeof line, "%-28s %9s %11s %7s %11s %11s\n", "op", "calls", "self ms",
                "share", "total ms", "mean us");
  std::string result = line;
  for (size_t i = 0; i < sorted.size() && i < static_cast<size_t>(std::max(0, rows)); ++i) {
    const auto& [name, total] = sorted[i];
    std::snprintf(line, sizeof line, "%-28s %9llu %11.3f %6.1f%% %11.3f %11.3f\n", name.c_str(),
                  static_cast<unsigned long long>(total.calls), total.self_us / 1e3,
                  all_us > 0 ? 100 * total.self_us / all_us : 0, total.total_us / 1e3,
                  total.total_us / static_cast<double>(total.calls));
    result += line;
  }
  return result;
}

}  // namespace tensora
