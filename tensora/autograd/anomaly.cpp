#include <cxxabi.h>
#include <execinfo.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "tensora/autograd/engine.h"

namespace tensora {
namespace {

std::atomic<bool> anomaly_enabled{false};

// "lib.so(_ZN7tensora3addE+0x1f) [0x…]" -> "tensora::add …"
std::string readable(std::string frame) {
  const size_t open = frame.find('('), plus = frame.find('+', open);
  if (open == std::string::npos || plus == std::string::npos) return frame;
  const std::string mangled = frame.substr(open + 1, plus - open - 1);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? std::string(name.get()) : frame;
}

}  // namespace

bool is_anomaly_enabled() { return anomaly_enabled.load(std::memory_order_relaxed); }

detect_anomaly::detect_anomaly() : saved_(anomaly_enabled.exchange(true)) {}
detect_anomaly::~detect_anomaly() { anomaly_enabled.store(saved_); }

std::string call_stack() {
  void* addresses[48];
  const int count = backtrace(addresses, 48);
  const std::unique_ptr<char*, void (*)(void*)> frames(backtrace_symbols(addresses, count),
                                                       std::free);
  std::string result;
  for (int i = 2; frames && i < count; ++i) result += "  " + readable(frames.get()[i]) + '\n';
  return result;
}

}  // namespace tensora
