#pragma once

// The checked mode: each op is waited for, so that a failure is reported by the op that failed. No
// CUDA header is needed.

#include <atomic>
#include <string_view>

namespace tensora::cuda {

// Note [Checked mode]
// Ops are queued, so an op's error is reported by some later call, and an invalid index when the
// host next waits (Note [Wrong values on the device]). In checked mode the host waits after every
// launch and checks for both: slow, but exact. Kernels check indices in either mode. A graph being
// recorded runs nothing, so nothing is waited for; its replay is checked as one.

/// On from the first use of CUDA where the environment says TENSORA_CUDA_CHECKED=1.
bool is_checked() noexcept;
void set_checked(bool on) noexcept;

namespace detail {
extern std::atomic<bool> checked;
void wait_and_check(std::string_view op, int device);
}  // namespace detail

/// Called after each launch.
inline void after_launch(std::string_view op, int device) {
  if (detail::checked.load(std::memory_order_relaxed)) [[unlikely]]
    detail::wait_and_check(op, device);
}

}  // namespace tensora::cuda
