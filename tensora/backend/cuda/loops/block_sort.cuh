#pragma once

namespace tensora::cuda {

// Note [Sorting within a block]
// A bitonic network in the form whose comparators all put the smaller item first: runs of k items
// are merged by comparing the first half with the second read backwards, then halves of halves. An
// item that does not exist counts as larger than any other and would never move, so counts that are
// no power of two need no padding, and the items may lie anywhere, in shared memory or, where they
// are too many for it, in the device's.

/// Sorts each run of `longest` items of items[0 … count), a power of two, by `less`, which must be
/// a strict total order. Called by all threads of the block, which are synchronized afterwards.
template <class T, class Less>
__device__ inline void sort_runs(T* items, unsigned long long count, unsigned long long longest,
                                 Less less) {
  const auto order = [&](unsigned long long low, unsigned long long high) {
    if (high >= count) return;
    const T a = items[low], b = items[high];
    if (!less(b, a)) return;
    items[low] = b;
    items[high] = a;
  };
  const unsigned long long pairs = (count + longest - 1) / longest * longest / 2;
  __syncthreads();
  for (unsigned long long run = 2; run <= longest; run *= 2) {
    for (unsigned long long i = threadIdx.x; i < pairs; i += blockDim.x) {
      const unsigned long long within = i & (run / 2 - 1), start = (i - within) * 2;
      order(start + within, start + run - 1 - within);
    }
    __syncthreads();
    for (unsigned long long half = run / 4; half > 0; half /= 2) {
      for (unsigned long long i = threadIdx.x; i < pairs; i += blockDim.x) {
        const unsigned long long low = 2 * i - (i & (half - 1));
        order(low, low + half);
      }
      __syncthreads();
    }
  }
}

/// Sorts items[0 … count) as one run.
template <class T, class Less>
__device__ inline void sort_block(T* items, unsigned long long count, Less less) {
  unsigned long long size = 1;
  while (size < count) size *= 2;
  sort_runs(items, count, size, less);
}

}  // namespace tensora::cuda
