#include "tensora/core/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <mutex>
#include <optional>
#include <system_error>

#include "tensora/base/check.h"
#include "tensora/core/backend.h"

namespace tensora {
namespace {

// In the order of the enumerators.
constexpr std::array<std::string_view, 3> kEnumerators = {"cpu", "cuda", "meta"};
// The kinds without an enumerator. A name, once published here, stays.
constinit std::array<std::atomic<const std::string*>, kDeviceTypeCount - kEnumerators.size()>
    further_names;

std::optional<DeviceType> find_kind(std::string_view kind) {
  for (size_t i = 0; i < kEnumerators.size(); ++i)
    if (kEnumerators[i] == kind) return static_cast<DeviceType>(i);
  for (size_t i = 0; i < further_names.size(); ++i) {
    const std::string* known = further_names[i].load(std::memory_order_acquire);
    if (known && *known == kind) return static_cast<DeviceType>(kEnumerators.size() + i);
  }
  return {};
}

// A name that can be part of a library's and a function's name.
bool is_plain_name(std::string_view kind) {
  return !kind.empty() && kind[0] >= 'a' && std::all_of(kind.begin(), kind.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// The number of a kind, which it gets now if there is a library for it. Nothing is opened.
std::optional<DeviceType> find_or_add_kind(std::string_view kind) {
  if (const auto found = find_kind(kind)) return found;
  if (!is_plain_name(kind) || !has_backend_library(kind)) return {};
  static std::mutex adding;
  const std::lock_guard lock(adding);
  if (const auto found = find_kind(kind)) return found;
  for (auto& slot : further_names) {
    if (slot.load(std::memory_order_relaxed)) continue;
    slot.store(new std::string(kind), std::memory_order_release);
    return find_kind(kind);
  }
  fail("device: there is no room for '", kind, "': a process can have ", kDeviceTypeCount,
       " kinds of devices");
}

}  // namespace

std::string_view name(DeviceType type) {
  const auto number = static_cast<size_t>(type);
  if (number < kEnumerators.size()) return kEnumerators[number];
  return *further_names[number - kEnumerators.size()].load(std::memory_order_acquire);
}

Device::Device(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  const std::optional<DeviceType> known = find_or_add_kind(kind);
  check(known.has_value(), "device: unknown kind in '", text,
        "'; expected cpu, cuda, cuda:N, meta, or a NAME for which libtensora_NAME.so lies beside "
        "libtensora.so");
  type = *known;
  if (colon == std::string_view::npos) return;
  const std::string_view digits = text.substr(colon + 1);
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  check(error == std::errc() && end == digits.data() + digits.size() && number >= 0 && number < 128,
        "device: expected a number after ':' in '", text, "'");
  index = static_cast<int8_t>(number);
}

std::string to_string(Device device) { return concat(device); }

void append(std::string& out, Device device) {
  out += name(device.type);
  if (!device.is_cpu() && !device.is_meta()) {
    out += ':';
    append(out, static_cast<int>(device.index));
  }
}

Device best_device() {
  return is_available(DeviceType::cuda) ? Device(DeviceType::cuda) : Device(DeviceType::cpu);
}

}  // namespace tensora
