#include "tensora/core/backend.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/base/settings.h"
#include "tensora/core/deferred.h"

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
  if (const std::string_view path = path_setting(variable.c_str()); !path.empty())
    return std::string(path);
  const std::string file = concat("libtensora_", kind, ".so");
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&library_path), &info) == 0) return file;
  const std::string self = info.dli_fname;
  const size_t slash = self.rfind('/');
  return slash == std::string::npos ? file : self.substr(0, slash + 1) + file;
}

template <class Function>
Function find(void* library, const std::string& symbol) {
  return reinterpret_cast<Function>(dlsym(library, symbol.c_str()));
}

// Opens a backend's library and asks it for the backend. Throws an Error that says what is missing;
// the entry point does the same if the driver or the device is.
Backend* open_library(std::string_view kind) {
  const std::string path = library_path(kind);
  if (path.find('/') != path.npos && access(path.c_str(), F_OK) != 0)
    fail(kind, ": this Tensora was built without the ", kind, " backend (there is no ", path, ")");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(kind, ": the backend's library could not be opened (", dlerror(), ")");
  const std::string symbol = concat("tensora_", kind, "_backend");
  const auto entry = find<Backend* (*)()>(library, symbol);
  check(entry != nullptr, kind, ": ", path, " is no backend for Tensora: it has no function ",
        symbol);
  const auto abi = find<int (*)()>(library, concat("tensora_", kind, "_abi"));
  check(abi != nullptr, kind, ": ", path,
        " does not say for which Tensora it was built: it has no ", "function tensora_", kind,
        "_abi; compile it with this Tensora's headers");
  check(abi() == kBackendAbi, kind, ": ", path, " was built for version ", abi(),
        " of the interface between Tensora and its backends, but this Tensora has version ",
        kBackendAbi, "; compile it with this Tensora's headers");
  return entry();
}

Backend* load(DeviceType type) {
  if (type == DeviceType::cpu) return &cpu_backend();
  check(type != DeviceType::meta, "the meta device has no memory and no backend");
  return open_library(name(type));
}

}  // namespace

void Allocator::set_cache_limit(uint64_t) {
  fail(
      "set_cache_limit: the cache of this device has no limit of its own; empty_cache gives back "
      "what it holds");
}

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
  flush_deferred();
  if (!device.is_meta()) backend(device.type).synchronize(device);
}

MemoryStats memory_stats(Device device) { return allocator(device).stats(); }
void empty_cache(Device device) { allocator(device).empty_cache(); }
void set_memory_limit(Device device, uint64_t bytes) { allocator(device).set_limit(bytes); }
void set_cache_limit(Device device, uint64_t bytes) { allocator(device).set_cache_limit(bytes); }

}  // namespace tensora
