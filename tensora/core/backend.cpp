#include "tensora/core/backend.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "tensora/base/check.h"

namespace tensora {

// Defined by backend/cpu, which is always part of this library.
Backend& cpu_backend();

namespace {

std::array<std::atomic<Backend*>, kDeviceTypeCount> backends;

// libtensora_cuda.so lies beside libtensora.so; TENSORA_CUDA_LIBRARY names another place.
std::string cuda_library_path() {
  if (const char* path = std::getenv("TENSORA_CUDA_LIBRARY")) return path;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&cuda_library_path), &info) == 0) return "libtensora_cuda.so";
  const std::string self = info.dli_fname;
  const size_t slash = self.rfind('/');
  return slash == std::string::npos ? "libtensora_cuda.so"
                                    : self.substr(0, slash + 1) + "libtensora_cuda.so";
}

// Opens the CUDA library and asks it for its backend. Throws a sentence that says what is missing.
Backend* load_cuda() {
  const std::string path = cuda_library_path();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) fail("cuda: the CUDA backend library could not be opened (", dlerror(), ")");
  // The entry point throws Error when the driver or the device is missing.
  using Entry = Backend* (*)();
  auto entry = reinterpret_cast<Entry>(dlsym(library, "tensora_cuda_backend"));
  check(entry != nullptr, "cuda: ", path, " is not a Tensora CUDA backend");
  return entry();
}

Backend* load(DeviceType type) {
  switch (type) {
    case DeviceType::cpu:
      return &cpu_backend();
    case DeviceType::cuda:
      return load_cuda();
    case DeviceType::meta:
      break;
  }
  fail("the ", name(type), " device has no memory and no backend");
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

void synchronize(Device device) {
  if (!device.is_meta()) backend(device.type).synchronize(device);
}

MemoryStats memory_stats(Device device) { return allocator(device).stats(); }
void empty_cache(Device device) { allocator(device).empty_cache(); }
void set_memory_limit(Device device, uint64_t bytes) { allocator(device).set_limit(bytes); }

}  // namespace tensora
