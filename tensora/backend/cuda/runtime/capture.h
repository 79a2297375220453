#pragma once

// What the rest of the backend has to know of a graph that is being captured.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensora/core/philox.h"

namespace tensora {
class Generator;
}

namespace tensora::cuda {

/// Where the random numbers of one replay begin, in device memory. See Note [Random numbers in a
/// graph] in graph.cpp.
struct ReplayRandom {
  unsigned long long seed;
  unsigned long long offset;
};

/// A thread that records a graph; see Note [Capture] in graph.cpp.
struct Capture {
  int device = 0;
  uint64_t graph = 0;                   // whose memory pool serves the thread
  PhiloxState random_start;             // of the thread's generator when recording began
  ReplayRandom* random = nullptr;       // device memory
  bool draws_random = false;            // some recorded kernel reads `random`
  std::vector<void*> freed_while_used;  // blocks that other streams used; freed after recording
};

/// Null unless this thread records a graph.
Capture* current_capture() noexcept;
void set_current_capture(Capture* capture) noexcept;

/// Throws while a graph is being captured: `what` cannot be part of one.
void refuse_capture(std::string_view what);

/// For kernels that draw random numbers: null, or where the kernel finds at each replay what to add
/// to its offset. `state` then becomes relative to that.
const ReplayRandom* replay_random(std::string_view op, PhiloxState& state);

/// While a graph is recorded CUDA refuses calls that might wait or allocate. Ours that touch no
/// captured stream are made under this guard.
class OutsideCapture {
 public:
  OutsideCapture() noexcept {
    if (current_capture()) cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  ~OutsideCapture() {
    if (current_capture()) cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace tensora::cuda
