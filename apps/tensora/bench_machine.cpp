#include "bench_machine.h"

#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <map>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/dispatch/build_info.h"
#include "tensora/llm/metrics.h"

namespace tensora::cli {

std::string line_behind(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.rfind(name, 0) == 0) {
      const size_t colon = line.find(':');
      const size_t begin = line.find_first_not_of(" \t", colon + 1);
      return begin == line.npos ? "" : line.substr(begin);
    }
  return {};
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

namespace {

double processor_clock() {
  std::ifstream file("/proc/cpuinfo");
  double sum = 0, count = 0;
  for (std::string line; std::getline(file, line);)
    if (line.rfind("cpu MHz", 0) == 0) {
      sum += std::strtod(line.c_str() + line.find(':') + 1, nullptr);
      ++count;
    }
  return count > 0 ? sum / count : 0;
}

}  // namespace

// NVIDIA's management library, opened at run time: its functions as nvml.h declares them.
class Machine::Gpu {
 public:
  static std::unique_ptr<Gpu> open(int index) {
    auto gpu = std::make_unique<Gpu>();
    return index >= 0 && gpu->start(index) ? std::move(gpu) : nullptr;
  }
  ~Gpu() {
    if (const auto shutdown = find<int()>("nvmlShutdown"); shutdown && is_started_) shutdown();
    if (library_) dlclose(library_);
  }

  // A figure that a function of the library gives, by a selector where it takes one; -1: none.
  double clock(unsigned kind) const {
    unsigned value = 0;
    const auto ask = find<int(void*, unsigned, unsigned*)>("nvmlDeviceGetClockInfo");
    return ask && ask(device_, kind, &value) == 0 ? value : -1;
  }
  double temperature() const {
    unsigned value = 0;
    const auto ask = find<int(void*, unsigned, unsigned*)>("nvmlDeviceGetTemperature");
    return ask && ask(device_, 0, &value) == 0 ? value : -1;
  }
  double power() const {
    unsigned milliwatts = 0;
    const auto ask = find<int(void*, unsigned*)>("nvmlDeviceGetPowerUsage");
    return ask && ask(device_, &milliwatts) == 0 ? milliwatts / 1e3 : -1;
  }
  int utilization() const {
    struct {
      unsigned gpu = 0, memory = 0;
    } rates;
    const auto ask = find<int(void*, void*)>("nvmlDeviceGetUtilizationRates");
    return ask && ask(device_, &rates) == 0 ? static_cast<int>(rates.gpu) : -1;
  }
  uint64_t memory_used() const {
    struct {
      unsigned long long total = 0, free = 0, used = 0;
    } memory;
    const auto ask = find<int(void*, void*)>("nvmlDeviceGetMemoryInfo");
    return ask && ask(device_, &memory) == 0 ? memory.used : 0;
  }
  std::string name() const {
    char text[128] = "";
    const auto ask = find<int(void*, char*, unsigned)>("nvmlDeviceGetName");
    return ask && ask(device_, text, sizeof(text)) == 0 ? text : "";
  }
  std::string driver() const {
    char text[96] = "";
    const auto ask = find<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
    return ask && ask(text, sizeof(text)) == 0 ? text : "";
  }

 private:
  template <class Function>
  Function* find(const char* symbol) const {
    return library_ ? reinterpret_cast<Function*>(dlsym(library_, symbol)) : nullptr;
  }
  bool start(int index) {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto begin = find<int()>("nvmlInit_v2");
    const auto handle = find<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
    is_started_ = begin && begin() == 0;
    return is_started_ && handle && handle(static_cast<unsigned>(index), &device_) == 0;
  }

  void* library_ = nullptr;
  void* device_ = nullptr;
  bool is_started_ = false;
};

Machine::Machine(int gpu) : gpu_(Gpu::open(gpu)), states_(nlohmann::ordered_json::object()) {}

Machine::~Machine() = default;

void Machine::sample() {
  const auto add = [&](const char* name, double value) {
    if (value >= 0) states_[name].push_back(value);
  };
  double load = -1;
  if (double loads[1]; getloadavg(loads, 1) == 1) load = loads[0];
  add("load_average", load);
  add("cpu_mhz", processor_clock());
  if (!gpu_) return;
  add("gpu_sm_mhz", gpu_->clock(1));
  add("gpu_memory_mhz", gpu_->clock(2));
  add("gpu_celsius", gpu_->temperature());
  add("gpu_watts", gpu_->power());
}

int Machine::gpu_utilization() const { return gpu_ ? gpu_->utilization() : -1; }

uint64_t Machine::gpu_memory_used() const { return gpu_ ? gpu_->memory_used() : 0; }

nlohmann::ordered_json Machine::to_json() const {
  const BuildInfo build = build_info();
  utsname system{};
  uname(&system);
  nlohmann::ordered_json out = {{"cpu", line_behind("/proc/cpuinfo", "model name")},
                                {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
                                {"gpu", gpu_ ? gpu_->name() : ""},
                                {"gpu_driver", gpu_ ? gpu_->driver() : ""},
                                {"system", concat(system.sysname, " ", system.release)},
                                {"tensora", build.version},
                                {"compiler", build.compiler},
                                {"instruction_set", build.instruction_set},
                                {"matrix_libraries", build.matrix_libraries},
                                {"states", nlohmann::ordered_json::object()}};
  for (const auto& [name, list] : states_.items()) {
    const auto values = list.get<std::vector<double>>();
    out["states"][name] = {{"min", *std::ranges::min_element(values)},
                           {"mean", llm::spread_of(values).mean},
                           {"max", *std::ranges::max_element(values)}};
  }
  return out;
}

}  // namespace tensora::cli
