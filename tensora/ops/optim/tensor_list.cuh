#pragma once

// Internal header: kernels over a whole list of tensors.

#include <algorithm>
#include <vector>

#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/core/view.h"

namespace tensora::cuda {

// Note [A list in one launch]
// The addresses and sizes of all tensors of a list are parameters of the kernel. Each tensor is cut
// into chunks of equal size and a block takes one chunk; which tensor that belongs to it finds by
// bisection in the parameters, which are in constant memory. All arrays of a tensor are dense and
// laid out alike, so elements are taken in memory order, four at a time.

inline constexpr int kListTensors = 256;  // of one launch: the parameters of a kernel end at 32 KB
inline constexpr int kListPack = 4;       // elements
inline constexpr int kListPacks = 4;      // of a thread
inline constexpr int kListChunk = kThreads * kListPack * kListPacks;
inline constexpr int kListArrays = 6;  // parameter, gradient, three states, master weight

struct ListEntry {
  char* data[kListArrays];  // null: there is none
  long long count;
  unsigned first_block;
  DType dtypes[3];  // of parameter, gradient and states
  bool vector;      // all arrays begin where packs can be read
};
struct TensorList {
  ListEntry entries[kListTensors];
  int count;

  /// The tensor to which a block belongs.
  __device__ const ListEntry& of_block(unsigned block) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (entries[middle].first_block <= block)
        low = middle;
      else
        high = middle - 1;
    }
    return entries[low];
  }
};

template <class Body>
__device__ inline void visit_float(DType dtype, Body&& body) {
  if (dtype == DType::float32)
    body.template operator()<float>();
  else if (dtype == DType::bfloat16)
    body.template operator()<BFloat16>();
  else if (dtype == DType::float16)
    body.template operator()<Half>();
  else
    body.template operator()<double>();
}

// Up to kListPack elements, whole packs in one or two accesses.
template <class T, class C>
__device__ inline void read_items(const char* data, long long first, int n, C (&to)[kListPack]) {
  const T* const from = reinterpret_cast<const T*>(data) + first;
  if (n == kListPack) return load_pack<T>(reinterpret_cast<const char*>(from), to);
#pragma unroll
  for (int i = 0; i < kListPack; ++i) to[i] = i < n ? load_value<C>(from[i]) : C(0);
}
template <class T, class C>
__device__ inline void write_items(char* data, long long first, int n, const C (&from)[kListPack]) {
  T* const to = reinterpret_cast<T*>(data) + first;
  if (n == kListPack) return store_pack<T>(reinterpret_cast<char*>(to), from);
#pragma unroll
  for (int i = 0; i < kListPack; ++i)
    if (i < n) to[i] = store_value<T>(from[i]);
}
template <class C>
__device__ inline void read_any(const char* data, DType dtype, long long first, int n,
                                C (&to)[kListPack]) {
  visit_float(dtype, [&]<class T>() { read_items<T>(data, first, n, to); });
}
template <class C>
__device__ inline void write_any(char* data, DType dtype, long long first, int n,
                                 const C (&from)[kListPack]) {
  visit_float(dtype, [&]<class T>() { write_items<T>(data, first, n, from); });
}

// Calls body(first, n) for the packs of a chunk that this thread takes; single elements where packs
// cannot be read.
template <class Body>
__device__ inline void each_pack(const ListEntry& entry, unsigned block, Body&& body) {
  const long long start = static_cast<long long>(block - entry.first_block) * kListChunk;
  const long long end = min(start + kListChunk, entry.count);
  if (entry.vector) {
#pragma unroll
    for (int k = 0; k < kListPacks; ++k) {
      const long long first = start + (k * kThreads + static_cast<int>(threadIdx.x)) * kListPack;
      if (first < end)
        body(first, static_cast<int>(min(end - first, static_cast<long long>(kListPack))));
    }
    return;
  }
  for (long long i = start + threadIdx.x; i < end; i += kThreads) body(i, 1);
}

inline bool aligned(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

/// Cuts a list into launches: calls run(list, blocks) for each.
template <class Run>
void each_launch(const std::vector<ListEntry>& entries, const Run& run) {
  TensorList list{};
  unsigned blocks = 0;
  const auto launch = [&] {
    if (blocks > 0) run(list, dim3(blocks));
    list.count = 0;
    blocks = 0;
  };
  for (const ListEntry& entry : entries) {
    if (entry.count == 0) continue;
    const auto more = static_cast<unsigned>((entry.count + kListChunk - 1) / kListChunk);
    if (list.count == kListTensors || blocks > 0x7fffffffu - more) launch();
    ListEntry& added = list.entries[list.count++];
    added = entry;
    added.first_block = blocks;
    blocks += more;
  }
  launch();
}

// An array of a tensor, and whether packs of it can be read.
inline void set_array(ListEntry& entry, int number, const View& view) {
  entry.data[number] = view.as<char>();
  entry.vector &= aligned(view.data, std::min<size_t>(16, kListPack * element_size(view.dtype)));
}

/// A tensor alone.
inline ListEntry entry_of(const View& view) {
  ListEntry entry{};
  entry.vector = true;
  entry.count = view.numel;
  entry.dtypes[0] = view.dtype;
  set_array(entry, 0, view);
  return entry;
}

}  // namespace tensora::cuda
