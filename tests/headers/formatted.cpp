// The public headers as a user's compiler sees them. Also run: what std::format and fmt write,
// where they are installed.
#include <string>

#include "tensora/core/format.h"
#include "tensora/tensora.h"

namespace {

[[maybe_unused]] bool same(const std::string& got, const std::string& expected) {
  return got == expected;
}

}  // namespace

int main() {
  bool ok = true;
  [[maybe_unused]] const tensora::Tensor x = tensora::zeros({2, 3}, tensora::kInt64);
#if defined(__cpp_lib_format)
  ok = ok && same(std::format("{} {} {} {}", x.sizes(), x.dtype(), x.device(), tensora::Scalar(3)),
                  "[2, 3] int64 cpu 3");
  ok = ok && same(std::format("{:>8}|{}", x.sizes(), tensora::tensor({1})), "  [2, 3]|tensor([1])");
#endif
#if defined(FMT_VERSION)
  ok = ok && same(fmt::format("{} {} {} {}", x.sizes(), x.dtype(), x.device(), tensora::Scalar(3)),
                  "[2, 3] int64 cpu 3");
  ok = ok && same(fmt::format("{:>8}|{}", x.sizes(), tensora::tensor({1})), "  [2, 3]|tensor([1])");
  ok = ok && same(fmt::format("{}", x.options()),
                  "TensorOptions(dtype=int64, device=cpu, requires_grad=false)");
#endif
  return ok ? 0 : 1;
}
