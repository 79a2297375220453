#pragma once

#include <optional>

#include "tensora/core/thread_state.h"
#include "tensora/dispatch/op.h"

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

// ---- for those who write ops -------------------------------------------------------------------

/// What a policy asks for on the device of the inputs; `as_is` where autocast is off.
Autocast effective_policy(AutocastPolicy policy, Args inputs);

/// A call of an op, or of a function made of several, as autocast sees it: the inputs are cast as
/// `policy` says, and as long as the object lives autocast is off, so that nothing within is cast
/// once more.
class AutocastCall {
 public:
  AutocastCall(std::string_view name, AutocastPolicy policy, Args inputs);
  ~AutocastCall() { thread_state.autocast = saved_; }
  AutocastCall(const AutocastCall&) = delete;
  AutocastCall& operator=(const AutocastCall&) = delete;

  Args inputs() const { return inputs_; }
  const Tensor& operator[](size_t i) const { return *inputs_[i]; }
  std::vector<Tensor> tensors() const;

 private:
  AutocastModes saved_;
  SmallVector<Tensor, 4> cast_;
  SmallVector<Arg, 4> inputs_;
};

/// For functions that are made of several ops and that autocast treats as one:
///
///   if (is_autocast_enabled())
///     return autocast_call("linear", Autocast::lower, linear, input, weight, bias);
template <class Function, std::same_as<Tensor>... Inputs>
auto autocast_call(std::string_view name, AutocastPolicy policy, const Function& function,
                   const Inputs&... inputs) {
  const Arg args[] = {inputs...};
  const AutocastCall call(name, policy, args);
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return function(call[i]...);
  }(std::index_sequence_for<Inputs...>());
}

/// For functions that take the dtype of their result: float32 if the caller chose none, and the
/// policy for the input's device is `full`. The kernels read half types and accumulate in float32,
/// so no cast is needed.
std::optional<DType> autocast_result(const Tensor& input, std::optional<DType> chosen,
                                     AutocastPolicy policy);

}  // namespace tensora
