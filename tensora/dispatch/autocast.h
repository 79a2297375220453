#pragma once

#include <optional>

#include "tensora/core/device.h"
#include "tensora/core/dtype.h"
#include "tensora/core/thread_state.h"

namespace tensora {

struct AutocastOptions {
  std::optional<Device> device = {};  // the kind of device that is meant; every one if not given
  DType dtype = DType::bfloat16;      // or float16
  bool enabled = true;                // false turns autocast off within a scope where it is on
  bool cache_enabled = true;          // see below
};

/// Ops in the scope run in `dtype` where that is fast and safe (matrix products, convolutions), in
/// float32 where precision matters (losses, norms), and otherwise in the dtype of their inputs. The
/// lists are PyTorch's, for the CPU and for GPUs. In-place ops are not changed.
///
/// A parameter (a leaf that requires grad) is cast once: the cast is kept until the outermost scope
/// ends or the parameter changes. Open the scope anew in each training step. The body of a
/// checkpoint has casts of its own, and a CUDA graph records those that it needs.
class autocast {
 public:
  explicit autocast(DType dtype = DType::bfloat16) : autocast(AutocastOptions{.dtype = dtype}) {}
  explicit autocast(const AutocastOptions& options);
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  AutocastModes saved_;
};

/// Whether autocast is on for any device, or for one kind of device.
inline bool is_autocast_enabled() { return thread_state.autocast.devices != 0; }
inline bool is_autocast_enabled(DeviceType type) {
  return thread_state.autocast.devices >> static_cast<int>(type) & 1;
}
/// The dtype to which autocast casts on that kind of device.
inline DType autocast_dtype(DeviceType type) {
  return static_cast<DType>(thread_state.autocast.dtypes[static_cast<int>(type)]);
}

}  // namespace tensora
