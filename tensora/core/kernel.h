#pragma once

#include <span>
#include <string_view>

#include "tensora/core/view.h"

namespace tensora {

/// What a kernel sees. Undefined optional inputs are null.
struct KernelContext {
  std::string_view op;
  std::span<const View* const> in;
  std::span<const View* const> out;
  Device device;
  DType compute_dtype;  // pointwise ops: in which the inputs meet

  const View& input(size_t i) const { return *in[i]; }
  const View& output(size_t i = 0) const { return *out[i]; }
};

/// Calls `run` with the same op on the parts of complex arrays, as real arrays with one more dim at
/// the end. A kernel that is linear in its only input supports complex numbers that way.
template <class Run>
void run_on_parts(const KernelContext& context, Run&& run) {
  const View in = parts_as_reals(context.input(0)), out = parts_as_reals(context.output());
  const View *const ins[] = {&in}, *const outs[] = {&out};
  run(KernelContext{context.op, ins, outs, context.device, out.dtype});
}

}  // namespace tensora
