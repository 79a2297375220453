#pragma once

// Internal header: how an op's kernel is called, a part of apply.cpp.

#include <vector>

#include "tensora/dispatch/deferral.h"
#include "tensora/dispatch/op.h"

namespace tensora {

// Optional inputs that are undefined at the end count as left out.
inline Args without_undefined_end(Args inputs) {
  size_t given = inputs.size();
  while (given > 0 && !inputs[given - 1]->defined()) --given;
  return inputs.first(given);
}

// `views` has room for a pointer per input and output.
[[gnu::always_inline]] inline void run_kernel_with(const View** views, const OpBase& op,
                                                   Args inputs, std::span<const Tensor> outputs,
                                                   const Infer& infer, Device device,
                                                   const void* attrs) {
  size_t given = 0;  // see without_undefined_end
  for (size_t i = 0; i < inputs.size(); ++i) {
    views[i] = inputs[i]->defined() ? &inputs[i]->impl().view : nullptr;
    if (views[i]) given = i + 1;
  }
  const View** const out = views + inputs.size();
  for (size_t i = 0; i < outputs.size(); ++i) out[i] = &outputs[i].impl().view;
  const KernelContext context{.op = op.name,
                              .in = {views, given},
                              .out = {out, outputs.size()},
                              .device = device,
                              .compute_dtype = infer.compute_dtype};
  op.run_kernel(op, context, attrs);
}

// Apart, so that the usual call has no vector to free.
[[gnu::noinline]] inline void run_kernel_with_many(const OpBase& op, Args inputs,
                                                   std::span<const Tensor> outputs,
                                                   const Infer& infer, Device device,
                                                   const void* attrs) {
  std::vector<const View*> views(inputs.size() + outputs.size());
  run_kernel_with(views.data(), op, inputs, outputs, infer, device, attrs);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_no_kernel(const OpBase& op, Device device) {
  fail(op.name, ": there is no ", name(device.type),
       " kernel for this op, and no definition in other ops; move its inputs to the cpu");
}

// The op has a kernel.
[[gnu::always_inline]] inline void run_kernel(const OpBase& op, Args inputs,
                                              std::span<const Tensor> outputs, const Infer& infer,
                                              Device device, const void* attrs) {
  const View* few[8];
  if (inputs.size() + outputs.size() > std::size(few)) [[unlikely]]
    return run_kernel_with_many(op, inputs, outputs, infer, device, attrs);
  run_kernel_with(few, op, inputs, outputs, infer, device, attrs);
}

// Runs the kernel, or hands it to the thread's deferral. See Note [Deferred kernels].
inline void run_or_defer(const OpBase& op, Args inputs, std::span<const Tensor> outputs,
                         const Infer& infer, Device device, const void* attrs) {
  if (!op.has_kernel(device.type)) [[unlikely]]
    fail_no_kernel(op, device);
  if (thread_state.deferral) [[unlikely]]
    thread_state.deferral->defer(
        {op, without_undefined_end(inputs), outputs, device, infer.compute_dtype, attrs});
  else
    run_kernel(op, inputs, outputs, infer, device, attrs);
}

}  // namespace tensora
