#include "tensora/core/device.h"

#include <array>
#include <charconv>

#include "tensora/base/check.h"
#include "tensora/core/backend.h"

namespace tensora {
namespace {

constexpr std::array<std::string_view, kDeviceTypeCount> kNames = {"cpu", "cuda", "meta"};

}  // namespace

std::string_view name(DeviceType type) { return kNames[static_cast<size_t>(type)]; }

Device::Device(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  bool known = false;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] != kind) continue;
    type = static_cast<DeviceType>(i);
    known = true;
  }
  check(known, "device: unknown kind in '", text, "'; expected cpu, cuda, cuda:N or meta");
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
  if (device.type == DeviceType::cuda) {
    out += ':';
    append(out, static_cast<int>(device.index));
  }
}

Device best_device() {
  return is_available(DeviceType::cuda) ? Device(DeviceType::cuda) : Device(DeviceType::cpu);
}

}  // namespace tensora
