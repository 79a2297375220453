#pragma once

#include "tensora/dispatch/interceptor.h"

namespace tensora::train {

/// While installed (InterceptorScope), looks at the result of every op and throws at the first one
/// that is not finite though its inputs are: the error names the op. Every op then waits for the
/// device; it is for the one step that went wrong.
class NanFinder final : public Interceptor {
 public:
  /// Infinite numbers may be meant (a mask adds -inf), so they are looked for only on request.
  enum class What : uint8_t { nan, infinite };
  explicit NanFinder(What what = What::nan) : what_(what) {}

  Tensors intercept(const Call& call) override;

 private:
  bool is_bad(const Tensor& tensor) const;

  What what_;
};

}  // namespace tensora::train
