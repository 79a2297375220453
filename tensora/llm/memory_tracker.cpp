#include "tensora/llm/memory_tracker.h"

#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string_view>

#include "tensora/core/backend.h"

namespace tensora::llm {
namespace {

// A number of kB behind a name, as in /proc/meminfo; 0 if it is not there.
uint64_t kilobytes(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  while (file >> word)
    if (word == name && file >> value) return value * 1024;
  return 0;
}

uint64_t number_in(const char* path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : 0;
}

// What a container may still take: its limit less what is not merely cached files.
uint64_t free_in_container() {
  const uint64_t limit = number_in("/sys/fs/cgroup/memory.max");
  if (limit == 0) return std::numeric_limits<uint64_t>::max();
  uint64_t used = number_in("/sys/fs/cgroup/memory.current");
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  std::string name;
  uint64_t value = 0;
  while (file >> name >> value)
    if (name == "file") used -= std::min(used, value);
  return limit - std::min(limit, used);
}

MemoryUsage host_memory() {
  return {.used = kilobytes("/proc/self/status", "VmRSS:"),
          .free = std::min(kilobytes("/proc/meminfo", "MemAvailable:"), free_in_container()),
          .total = kilobytes("/proc/meminfo", "MemTotal:")};
}

// Asks the driver, which is loaded with the backend, so that this library need not know CUDA.
struct CudaDriver {
  int (*device_get)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*release)(int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*pop)(void**) = nullptr;
  int (*info)(size_t*, size_t*) = nullptr;

  CudaDriver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return;
    const auto find = [&](auto& function, const char* symbol) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    };
    find(device_get, "cuDeviceGet");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(release, "cuDevicePrimaryCtxRelease_v2");
    find(push, "cuCtxPushCurrent_v2");
    find(pop, "cuCtxPopCurrent_v2");
    find(info, "cuMemGetInfo_v2");
  }

  bool ask(int index, size_t& free, size_t& total) const {
    if (!device_get || !retain || !release || !push || !pop || !info) return false;
    int device = 0;
    void* context = nullptr;
    if (device_get(&device, index) != 0 || retain(&context, device) != 0) return false;
    bool ok = push(context) == 0;
    if (ok) {
      ok = info(&free, &total) == 0;
      void* popped = nullptr;
      pop(&popped);
    }
    release(device);
    return ok;
  }
};

MemoryUsage device_memory(Device device) {
  const MemoryStats stats = memory_stats(device);
  MemoryUsage usage{.used = stats.reserved};
  size_t free = 0, total = 0;
  if (device.is_cuda()) {
    static const CudaDriver driver;
    if (driver.ask(device.index, free, total)) {
      usage.total = total;
      // Memory that the allocator keeps for later tensors is ours to use.
      usage.free = free + (stats.reserved - std::min(stats.reserved, stats.allocated));
    }
  }
  if (stats.limit > 0)
    usage.free = std::min(usage.free, stats.limit - std::min(stats.limit, stats.allocated));
  return usage;
}

}  // namespace

MemoryUsage memory_usage(Device device) {
  return device.is_cpu() ? host_memory() : device_memory(device);
}

uint64_t peak_host_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

MemoryTracker::MemoryTracker(Device device) {
  readings_.push_back({.device = Device()});
  if (!device.is_cpu()) readings_.push_back({.device = device});
  reset();
}

void MemoryTracker::reset() {
  for (Reading& reading : readings_) {
    const MemoryUsage usage = memory_usage(reading.device);
    reading.baseline = reading.used = reading.peak = usage.used;
    reading.total = usage.total;
  }
}

void MemoryTracker::sample() {
  for (Reading& reading : readings_) {
    reading.used = memory_usage(reading.device).used;
    reading.peak = std::max(reading.peak, reading.used);
  }
}

std::vector<MemoryTracker::Reading> MemoryTracker::read() {
  sample();
  return readings_;
}

std::string MemoryTracker::table() {
  std::string out = "device      used GB  since start GB     peak GB    total GB\n";
  for (const Reading& reading : read()) {
    char line[128];
    const auto gigabytes = [](auto bytes) { return static_cast<double>(bytes) / 1e9; };
    std::snprintf(line, sizeof(line), "%-8s %10.3f %15.3f %11.3f %11.3f\n",
                  to_string(reading.device).c_str(), gigabytes(reading.used),
                  gigabytes(reading.delta()), gigabytes(reading.peak), gigabytes(reading.total));
    out += line;
  }
  return out;
}

}  // namespace tensora::llm
