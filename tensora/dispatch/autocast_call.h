#pragma once

// Internal header: autocast for those who write ops.

#include "tensora/dispatch/autocast.h"
#include "tensora/dispatch/op.h"

namespace tensora {

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
