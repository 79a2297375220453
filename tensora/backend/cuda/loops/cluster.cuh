#pragma once

// Blocks of a cluster, which run at the same time and read one another's shared memory. For sources
// called *_sm90a.cu.

namespace tensora::cuda {

/// What this block wrote before is seen by those that have waited.
__device__ inline void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// Until all blocks have arrived.
__device__ inline void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline void join_cluster() {
  arrive_at_cluster();
  wait_for_cluster();
}

/// A number in the shared memory of the cluster's block `rank`, where `own` is in this block's.
template <class T>
__device__ inline T number_of_block(const T* own, int rank) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  unsigned address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(own))), "r"(rank));
  T value;
  if constexpr (sizeof(T) == 8)
    asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(value) : "r"(address) : "memory");
  else
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

}  // namespace tensora::cuda
