#include "tensora/backend/cuda/runtime/check.h"

#include <array>
#include <atomic>

#include "tensora/base/check.h"

namespace tensora::cuda {
namespace {

constexpr unsigned kRemembered = 8;

// Two words per entry, written without a lock: an entry torn between two threads would pair one
// op's name with another's length, so only the address is shared and names end with a zero.
std::array<std::atomic<const char*>, kRemembered> launches;
std::atomic<unsigned> launch_count{0};

}  // namespace

void note_launch(std::string_view op) noexcept {
  const unsigned slot = launch_count.fetch_add(1, std::memory_order_relaxed) % kRemembered;
  launches[slot].store(op.data(), std::memory_order_relaxed);
}

std::string recent_launches() {
  std::string text;
  const unsigned count = launch_count.load(std::memory_order_relaxed);
  for (unsigned i = 0; i < kRemembered; ++i) {
    const char* op = launches[(count + i) % kRemembered].load(std::memory_order_relaxed);
    if (!op) continue;
    if (!text.empty()) text += ", ";
    text += op;
  }
  return text;
}

void fail_cuda(cudaError_t status, std::string_view call) {
  // Clears what is not sticky, so that the next call does not report it again.
  cudaGetLastError();
  const std::string recent = recent_launches();
  fail("cuda: ", call, " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")",
       recent.empty() ? std::string() : concat("; last ops launched: ", recent));
}

}  // namespace tensora::cuda
