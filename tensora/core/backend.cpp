#include "tensora/core/backend.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tensora/base/check.h"

namespace tensora {

// Defined by backend/cpu, which is always part of this library.
Backend& cpu_backend();

namespace {

std::array<std::atomic<Backend*>, kDeviceTypeCount> backends;

// libtensora_NAME.so lies beside libtensora.so; TENSORA_NAME_LIBRARY names another place.
std::string library_path(std::string_view kind) {
  std::string variable = concat("TENSORA_", kind, "_LIBRARY");
  for (char& letter : variable)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  if (const char* path = std::getenv(variable.c_str())) return path;
  const std::string file = concat("libtensora_", kind, ".so");
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&library_path), &info) == 0) return file;
  const std::string self = info.dli_fname;
  const size_t slash = self.rfind('/');
  return slash == std::string::npos ? file : self.substr(0, slash + 1) + file;
}

// Opens a backend's library and asks it for the backend. Throws a sentence that says what is
// missing; so does the entry point when the driver or the device is.
Backend* open_library(std::string_view kind) {
  const std::string path = library_path(kind);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) fail(kind, ": the backend's library could not be opened (", dlerror(), ")");
  using Entry = Backend* (*)();
  const std::string symbol = concat("tensora_", kind, "_backend");
  auto entry = reinterpret_cast<Entry>(dlsym(library, symbol.c_str()));
  check(entry != nullptr, kind, ": ", path, " is no backend for Tensora: it has no function ",
        symbol);
  return entry();
}

Backend* load(DeviceType type) {
  if (type == DeviceType::cpu) return &cpu_backend();
  check(type != DeviceType::meta, "the meta device has no memory and no backend");
  return open_library(name(type));
}

}  // namespace

Backend& backend(DeviceType type) {
  std::atomic<Backend*>& slot = backends[static_cast<size_t>(type)];
  if (Backend* found = slot.load(std::memory_order_acquire)) [[likely]]
    return *found;
  static std::mutex loading;
  std::lock_guard lock(loading);
  if (Backend* found = slot.load(std::memory_order_acquire)) return *found;
  Backend* loaded = load(type);
  slot.store(loaded, std::memory_order_release);
  return *loaded;
}

bool has_backend_library(std::string_view kind) {
  return access(library_path(kind).c_str(), R_OK) == 0;
}

std::string unavailable_reason(DeviceType type) {
  if (type == DeviceType::meta) return {};
  try {
    return backend(type).device_count() > 0 ? "" : concat(name(type), ": no device was found");
  } catch (const std::exception& error) {
    return error.what();
  }
}

bool is_available(DeviceType type) { return unavailable_reason(type).empty(); }

void require_device(Device device) {
  if (device.is_meta()) return;
  const int count = backend(device.type).device_count();
  check(device.index < count, "device: ", device, " was asked for, but there ",
        count == 1 ? "is only 1" : concat("are only ", count), " of kind ", name(device.type));
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) {
  if (from_device.is_cpu())
    return backend(to_device.type).copy_bytes(to, to_device, from, from_device, bytes);
  if (to_device.is_cpu() || to_device.type == from_device.type)
    return backend(from_device.type).copy_bytes(to, to_device, from, from_device, bytes);
  std::vector<std::byte> host(bytes);
  backend(from_device.type).copy_bytes(host.data(), Device(), from, from_device, bytes);
  backend(to_device.type).copy_bytes(to, to_device, host.data(), Device(), bytes);
}

void synchronize(Device device) {
  if (!device.is_meta()) backend(device.type).synchronize(device);
}

MemoryStats memory_stats(Device device) { return allocator(device).stats(); }
void empty_cache(Device device) { allocator(device).empty_cache(); }
void set_memory_limit(Device device, uint64_t bytes) { allocator(device).set_limit(bytes); }

}  // namespace tensora
