// A third device, in one folder: what docs/add-a-backend.md explains.
#include "tensora/core/backend.h"

#include <cstring>

#include "tests/toy_device/kernels.h"
#include "tests/toy_device/memory.h"
#include "tests/toy_device/queue.h"

namespace tensora::toy {
namespace {

class ToyBackend final : public Backend {
 public:
  int device_count() override { return kDeviceCount; }
  Allocator& allocator(Device device) override { return memory(device.index); }

  void copy_bytes(void* to, Device to_device, const void* from, Device from_device,
                  size_t bytes) override {
    if (bytes == 0) return;
    // A copy within the device takes its place in the queue. One that leaves it waits until the
    // queues involved are empty, so that it has happened when this returns.
    if (to_device == from_device) {
      const Memory& own = memory(to_device.index);
      queue(to_device.index).push([target = own.local(to), source = own.local(from), bytes] {
        std::memmove(target, source, bytes);
      });
      return;
    }
    std::memcpy(reachable(to, to_device), reachable(from, from_device), bytes);
  }

  void synchronize(Device device) override { queue(device.index).wait(); }

 private:
  static void* reachable(const void* address, Device device) {
    if (device.is_cpu()) return const_cast<void*>(address);
    queue(device.index).wait();
    return memory(device.index).local(address);
  }
};

}  // namespace
}  // namespace tensora::toy

// What tensora/core/backend.cpp looks for in libtensora_toy.so.
extern "C" int tensora_toy_abi() { return tensora::kBackendAbi; }

extern "C" tensora::Backend* tensora_toy_backend() {
  static auto* instance = [] {
    tensora::toy::register_kernels();
    return new tensora::toy::ToyBackend;
  }();
  return instance;
}
