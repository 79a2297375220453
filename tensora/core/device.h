#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensora/base/check.h"

namespace tensora {

/// Kinds of devices. `meta` tensors have shapes and dtypes but no data. A kind that has no
/// enumerator is known by its name alone, `Device("toy").type`, and gets the next free number when
/// it is first named; see docs/add-a-backend.md.
enum class DeviceType : int8_t { cpu, cuda, meta };
/// How many kinds one process can have: each op has a kernel slot for each of them.
inline constexpr int kDeviceTypeCount = 8;

std::string_view name(DeviceType type);

/// Where a tensor lives: "cpu", "cuda", "cuda:1", "meta", or the name of another backend. Making a
/// Device touches no hardware; the device is looked for when a tensor is put there.
struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = 0;

  constexpr Device() = default;
  constexpr Device(DeviceType device_type, int device_index = 0)
      : type(device_type), index(static_cast<int8_t>(device_index)) {
    check(device_index >= 0 && device_index < 128, "device: the number must be in [0, 128), got ",
          device_index);
  }
  Device(std::string_view text);
  Device(const char* text) : Device(std::string_view(text)) {}
  Device(const std::string& text) : Device(std::string_view(text)) {}

  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }
  constexpr bool is_meta() const { return type == DeviceType::meta; }
  constexpr bool operator==(const Device&) const = default;
};

/// "cpu", "cuda:0"
std::string to_string(Device device);
void append(std::string& out, Device device);

/// CUDA if a usable GPU is there, else the CPU.
Device best_device();

}  // namespace tensora
