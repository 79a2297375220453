#pragma once

/// Marks a function that runs on the host and inside CUDA kernels alike.
#if defined(__CUDACC__)
#define TENSORA_HD __host__ __device__
#else
#define TENSORA_HD
#endif
