#include "tensora/backend/cuda/runtime/checked.h"

#include <atomic>

#include "tensora/backend/cuda/runtime/capture.h"
#include "tensora/backend/cuda/runtime/fault.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/backend/cuda/runtime/wait.h"
#include "tensora/base/check.h"

namespace tensora::cuda {
namespace detail {

std::atomic<bool> checked = false;

void wait_and_check(std::string_view op, int device) {
  if (current_capture()) return;
  check_cuda(wait_for_stream(current_stream(device)), concat("the op '", op, "'"));
  throw_noted_fault(device);
}

}  // namespace detail

bool is_checked() noexcept { return detail::checked.load(std::memory_order_relaxed); }
void set_checked(bool on) noexcept { detail::checked.store(on, std::memory_order_relaxed); }

}  // namespace tensora::cuda
