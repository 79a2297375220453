#pragma once

// Launches of thread block clusters, for compute capability 9.0 and later.

#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {

/// Launch::run in clusters of `cluster` blocks along x, which divides grid.x.
void run_in_clusters(const Launch& how, unsigned cluster, const void* kernel, dim3 grid, dim3 block,
                     void** args);

template <class... Params>
void launch_clusters(const Launch& how, unsigned cluster, void (*kernel)(Params...), dim3 grid,
                     dim3 block, Params... params) {
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&params))...};
  run_in_clusters(how, cluster, reinterpret_cast<const void*>(kernel), grid, block, addresses);
}

}  // namespace tensora::cuda
