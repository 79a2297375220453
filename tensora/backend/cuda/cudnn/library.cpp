#include "tensora/backend/cuda/cudnn/library.h"

#include <map>
#include <mutex>
#include <vector>

#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/dynamic_library.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda::cudnn {
namespace {

/// Handles that no thread uses. A handle takes milliseconds to make, and destroying one while the
/// process ends is not safe.
class IdleHandles {
 public:
  Handle take(int device) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<Handle>& idle = idle_[device];
      if (!idle.empty()) {
        const Handle handle = idle.back();
        idle.pop_back();
        return handle;
      }
    }
    const DeviceGuard guard(device);
    const OutsideCapture outside;
    Handle handle = nullptr;
    check_status(library().create(&handle), "cuda", "cudnnCreate");
    return handle;
  }
  void give_back(int device, Handle handle) {
    const std::lock_guard lock(mutex_);
    idle_[device].push_back(handle);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<Handle>> idle_;
};

IdleHandles& idle_handles() {
  static auto* handles = new IdleHandles;  // threads may end after the statics
  return *handles;
}

struct HandlesOfThread {
  std::map<int, Handle> of_device;

  ~HandlesOfThread() {
    for (const auto& [device, handle] : of_device) idle_handles().give_back(device, handle);
  }
};

}  // namespace

Library::Library() {
  const DynamicLibrary opened({"libcudnn.so.9", "libcudnn.so"}, "a convolution or fused attention");
  opened.load(version, "cudnnGetVersion");
  check(version() >= 90000, "cuda: a convolution needs cuDNN 9 or newer, found ", version());
  opened.load(error_string, "cudnnGetErrorString");
  opened.load(last_error, "cudnnGetLastErrorString");
  opened.load(create, "cudnnCreate");
  opened.load(set_stream, "cudnnSetStream");
  opened.load(create_descriptor, "cudnnBackendCreateDescriptor");
  opened.load(destroy_descriptor, "cudnnBackendDestroyDescriptor");
  opened.load(finalize, "cudnnBackendFinalize");
  opened.load(set_attribute, "cudnnBackendSetAttribute");
  opened.load(get_attribute, "cudnnBackendGetAttribute");
  opened.load(execute, "cudnnBackendExecute");
}

const Library& library() {
  static const Library opened;
  return opened;
}

void check_status(Status status, std::string_view op, std::string_view call) {
  if (status == Status::success) [[likely]]
    return;
  char reason[512] = "";
  library().last_error(reason, sizeof reason);
  fail(op, ": cuDNN's ", call, " failed with ", library().error_string(status),
       reason[0] ? concat(" (", reason, ")") : std::string(),
       "; last ops launched: ", recent_launches());
}

Handle handle(int device, std::string_view op) {
  thread_local HandlesOfThread handles;
  const auto found = handles.of_device.find(device);
  const Handle mine =
      found != handles.of_device.end()
          ? found->second
          : handles.of_device.emplace(device, idle_handles().take(device)).first->second;
  check_status(library().set_stream(mine, current_stream(device)), op, "cudnnSetStream");
  return mine;
}

}  // namespace tensora::cuda::cudnn
