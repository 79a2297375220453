#pragma once

#include "tensora/dispatch/op.h"

namespace tensora {

/// Sees every op that runs while it is installed in `thread_state.tracer`. The parts of a
/// composite op are not reported, only the op itself.
class Tracer {
 public:
  virtual ~Tracer() = default;
  virtual void record(const OpBase& op, Args inputs, std::span<const Tensor> outputs,
                      const void* attrs) = 0;
};

}  // namespace tensora
