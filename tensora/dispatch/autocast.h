#pragma once

#include "tensora/dispatch/op.h"

namespace tensora {

/// Ops in the scope run in `dtype` where that is fast and safe (matrix products), in float32 where
/// precision matters, and otherwise in the dtype of their inputs.
class autocast {
 public:
  explicit autocast(DType dtype = DType::bfloat16, bool enabled = true);
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  bool saved_enabled_;
  uint8_t saved_dtype_;
};

/// Casts the floating inputs as the op's policy says. False when nothing has to change.
bool autocast_inputs(const OpBase& op, Args inputs, SmallVector<Tensor, 4>& cast);

}  // namespace tensora
