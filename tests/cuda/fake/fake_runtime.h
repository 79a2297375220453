#pragma once

// A CUDA runtime without a GPU, to test what the backend's host side does with one: device memory
// is host memory, copies are made at once, kernels only counted. It keeps to CUDA's rules where the
// backend depends on them (what may not be done while a graph is recorded, which events are
// reached), and fails on request.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tensora::test {

struct FakeCuda {
  // What the machine is like; set before the first use.
  int driver = CUDART_VERSION;
  int devices = 2;
  size_t memory = size_t{1} << 30;  // of each device

  // What goes wrong.
  cudaError_t next_launch = cudaSuccess;  // returned by the next launch
  cudaError_t fault = cudaSuccess;        // of a kernel: returned by every wait from now on
  bool busy = false;                      // events are not reached unless they are waited for

  // What was done.
  uint64_t launches = 0;
  uint64_t graph_launches = 0;
  uint64_t waits = 0;
  uint64_t events_recorded = 0;
  uint64_t stream_waits = 0;  // streams told to wait for an event
  size_t used[2] = {};        // memory of each device
  size_t mallocs = 0;
  size_t peers_enabled = 0;
  cudaStream_t last_stream = nullptr;  // of the last launch
};
extern FakeCuda fake;

}  // namespace tensora::test
