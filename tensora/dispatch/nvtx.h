#pragma once

namespace tensora {

/// Shows every op, and the program's own ProfilerRange scopes, as ranges in NVIDIA's tools while it
/// lives. Setting TENSORA_NVTX=1 shows them from the first use of CUDA to the end:
///
///   TENSORA_NVTX=1 nsys profile ./train
///
/// Without a tool a range costs a few nanoseconds.
class NvtxRanges {
 public:
  NvtxRanges();
  ~NvtxRanges();
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;
};

/// Does what the environment asks for; called by the CUDA library when it is loaded.
void start_nvtx_if_asked();

}  // namespace tensora
