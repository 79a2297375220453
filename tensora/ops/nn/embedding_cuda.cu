#include <algorithm>
#include <bit>

#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/loops/ordered.h"
#include "tensora/backend/cuda/loops/packed.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/nn/embedding_op.h"

// Note [Gradients of rows]
// Indices that occur often would make threads wait for each other if each added to its row. Instead
// the positions are sorted by index, and the sorted list is cut into chunks of equal length,
// however long the run of one index is. A block adds up the runs of its chunk; what belongs to a
// run that crosses the chunk's ends goes to memory of its own, from which a second kernel puts such
// runs together. The order of all additions is fixed by the indices alone.

namespace tensora::cuda {
namespace {

// ---- forward ----------------------------------------------------------------------------------

struct CopyParams {
  const char *weight, *indices;
  char* out;
  long long count, row_bytes;  // between rows of the weight
  long long column_bytes;      // between units of a row
  int units;                   // of a row
  int threads;                 // per row: a power of two
  IndexLimits limits;
  DType index_dtype;
};

template <class T>
__global__ void __launch_bounds__(kThreads) copy_rows(const __grid_constant__ CopyParams params) {
  const int per_block = kThreads / params.threads;
  const long long row =
      static_cast<long long>(blockIdx.x) * per_block + threadIdx.x / params.threads;
  if (row >= params.count) return;
  const long long index =
      checked_index(params.indices + row * (params.index_dtype == DType::int64 ? 8 : 4), 0,
                    params.index_dtype, params.limits);
  const char* const from = params.weight + max(index, 0ll) * params.row_bytes;
  T* const to = reinterpret_cast<T*>(params.out) + row * params.units;
#pragma unroll 4
  for (int u = threadIdx.x % params.threads; u < params.units; u += params.threads)
    to[u] = index < 0 ? T{} : *reinterpret_cast<const T*>(from + u * params.column_bytes);
}

void embedding_kernel(const KernelContext& context, const EmbeddingAttrs&) {
  const View &weight = context.input(0), &out = context.output();
  const int device = context.device.index;
  const Packed indices(context.op, device, context.input(1));
  if (indices.view().numel == 0) return;
  const auto bytes = static_cast<int64_t>(element_size(weight.dtype));
  CopyParams params{};
  params.weight = weight.as<const char>();
  params.indices = indices.view().as<const char>();
  params.out = out.as<char>();
  params.count = indices.view().numel;
  params.row_bytes = weight.strides[0] * bytes;
  params.limits = {context.op.data(), device_fault(device), 0, weight.sizes[0], 0};
  params.index_dtype = indices.view().dtype;
  // The widest access that rows of the weight and of the result allow.
  const int64_t width = weight.sizes[1] * bytes;
  int64_t unit = bytes;
  const auto address =
      reinterpret_cast<uintptr_t>(weight.data) | reinterpret_cast<uintptr_t>(out.data);
  if (weight.strides[1] == 1)
    while (unit < 16 &&
           (static_cast<int64_t>(address) | params.row_bytes | width) % (2 * unit) == 0)
      unit *= 2;
  params.units = static_cast<int>(width / unit);
  params.column_bytes = weight.strides[1] == 1 ? unit : weight.strides[1] * bytes;
  params.threads = static_cast<int>(
      std::bit_floor(static_cast<unsigned>(std::clamp(params.units, 1, kThreads))));
  const int per_block = kThreads / params.threads;
  const dim3 blocks(static_cast<unsigned>((params.count + per_block - 1) / per_block));
  const Launch launch{context.op, device};
  const DType by_size = unit == 16  ? DType::complex128
                        : unit == 8 ? DType::int64
                        : unit == 4 ? DType::int32
                        : unit == 2 ? DType::int16
                                    : DType::uint8;
  visit_element_size(by_size,
                     [&]<class T>() { launch(copy_rows<T>, blocks, dim3(kThreads), params); });
}

// ---- backward ---------------------------------------------------------------------------------

struct PairParams {
  const char *indices, *rows;  // rows may be null
  SortPairs pairs;
  long long count, padding;
  uint64_t nowhere;
  IndexLimits limits;
  DType index_dtype, rows_dtype;
};

__device__ inline long long integer_at(const char* data, DType dtype, long long i) {
  return dtype == DType::int64 ? reinterpret_cast<const long long*>(data)[i]
                               : reinterpret_cast<const int*>(data)[i];
}

__global__ void __launch_bounds__(kThreads)
    pair_indices(const __grid_constant__ PairParams params) {
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= params.count) return;
  const long long index = integer_at(params.indices, params.index_dtype, i);
  const bool valid = index >= 0 && index < params.limits.limit;
  if (!valid)
    note_fault(params.limits.fault, params.limits.op, nullptr, index, params.limits.limit, 0);
  const bool left_out = !valid || index == params.padding ||
                        (params.rows && integer_at(params.rows, params.rows_dtype, i) < 0);
  params.pairs.keys[i] = left_out ? params.nowhere : static_cast<uint64_t>(index);
  params.pairs.values[i] = static_cast<uint32_t>(i);
}

constexpr int kColumnThreads = 64;

struct SumParams {
  const uint64_t* keys;
  const uint32_t* positions;
  long long count;
  uint64_t nowhere;
  long long chunk;
  const char* grad;
  const char* rows;   // or null
  const void* scale;  // or null, of the compute type
  DType rows_dtype;
  char* out;
  void *heads, *tails;  // [chunks, width], of the compute type: of runs that began before, and
                        // of those that begin here and go on
  long long width;

  __device__ bool began_before(long long first, uint64_t key) const {
    return first > 0 && keys[first - 1] == key;
  }
  __device__ bool goes_on(long long end, uint64_t key) const {
    return end < count && keys[end] == key;
  }
  __device__ long long row_of(long long position) const {
    return rows ? integer_at(rows, rows_dtype, position) : position;
  }
};

template <class C, int V>
__device__ inline void store_sum(void* to, long long at, const C (&sum)[V]) {
#pragma unroll
  for (int i = 0; i < V; ++i) static_cast<C*>(to)[at + i] = sum[i];
}
template <class T, class C, int V>
__device__ inline void store_row(char* out, long long at, const C (&sum)[V]) {
  store_pack<T>(out + at * static_cast<long long>(sizeof(T)), sum);
}

// A thread sums V columns of a chunk.
template <class T, int V>
__global__ void __launch_bounds__(kColumnThreads)
    sum_chunks(const __grid_constant__ SumParams params) {
  using C = accumulate_t<T>;
  constexpr int kAhead = 4;  // rows that are loaded together
  const long long column = (static_cast<long long>(blockIdx.y) * kColumnThreads + threadIdx.x) * V;
  if (column >= params.width) return;
  const long long number = blockIdx.x, first = number * params.chunk;
  const long long end = min(first + params.chunk, params.count);
  uint64_t key = params.keys[first];
  bool is_head = params.began_before(first, key);
  C sum[V] = {};
  for (long long start = first; start < end; start += kAhead) {
    Pack<T, V> raw[kAhead];
    C scale[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (start + u >= end || params.keys[start + u] == params.nowhere) continue;
      const long long position = params.positions[start + u];
      scale[u] = params.scale ? static_cast<const C*>(params.scale)[position] : C(1);
      raw[u] = *reinterpret_cast<const Pack<T, V>*>(
          params.grad +
          (params.row_of(position) * params.width + column) * static_cast<long long>(sizeof(T)));
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (start + u >= end) break;
      const uint64_t next = params.keys[start + u];
      if (next != key) {
        if (is_head)
          store_sum(params.heads, number * params.width + column, sum);
        else
          store_row<T>(params.out, static_cast<long long>(key) * params.width + column, sum);
        key = next;
        is_head = false;
#pragma unroll
        for (int i = 0; i < V; ++i) sum[i] = 0;
      }
      if (key == params.nowhere) return;  // sorted to the end
#pragma unroll
      for (int i = 0; i < V; ++i) sum[i] += load_value<C>(raw[u].items[i]) * scale[u];
    }
  }
  if (is_head)
    store_sum(params.heads, number * params.width + column, sum);
  else if (params.goes_on(end, key))
    store_sum(params.tails, number * params.width + column, sum);
  else
    store_row<T>(params.out, static_cast<long long>(key) * params.width + column, sum);
}

// The runs that begin in a chunk and end in another.
template <class T, int V>
__global__ void __launch_bounds__(kColumnThreads)
    join_chunks(const __grid_constant__ SumParams params) {
  using C = accumulate_t<T>;
  const long long column = (static_cast<long long>(blockIdx.y) * kColumnThreads + threadIdx.x) * V;
  const long long number = blockIdx.x, first = number * params.chunk;
  const long long end = first + params.chunk;
  if (column >= params.width || end >= params.count) return;
  const uint64_t key = params.keys[end - 1];
  if (key == params.nowhere || !params.goes_on(end, key) || params.began_before(first, key)) return;
  C sum[V];
#pragma unroll
  for (int i = 0; i < V; ++i)
    sum[i] = static_cast<const C*>(params.tails)[number * params.width + column + i];
  for (long long next = number + 1; next * params.chunk < params.count; ++next) {
    if (params.keys[next * params.chunk] != key) break;
#pragma unroll
    for (int i = 0; i < V; ++i)
      sum[i] += static_cast<const C*>(params.heads)[next * params.width + column + i];
  }
  store_row<T>(params.out, static_cast<long long>(key) * params.width + column, sum);
}

SortPairs sorted_indices(const KernelContext& context, const EmbeddingBackwardAttrs& attrs,
                         const View& indices, const View* rows, const PairMemory& memory) {
  const int device = context.device.index;
  PairParams params{};
  params.indices = indices.as<const char>();
  params.rows = rows ? rows->as<const char>() : nullptr;
  params.rows_dtype = rows ? rows->dtype : DType::int64;
  params.pairs = memory.pairs(0);
  params.count = indices.numel;
  params.padding = attrs.padding_idx;
  params.nowhere = static_cast<uint64_t>(attrs.num_embeddings);
  params.limits = {context.op.data(), device_fault(device), 0, attrs.num_embeddings, 0};
  params.index_dtype = indices.dtype;
  const dim3 blocks(static_cast<unsigned>((indices.numel + kThreads - 1) / kThreads));
  Launch{context.op, device}(pair_indices, blocks, dim3(kThreads), params);
  sort_pairs(context.op, device, memory.pairs(0), memory.pairs(1), indices.numel,
             std::bit_width(params.nowhere));
  return memory.pairs(1);
}

template <class T, int V>
void sum_runs(const KernelContext& context, const SumParams& params, long long chunks) {
  const long long columns = (params.width / V + kColumnThreads - 1) / kColumnThreads;
  const dim3 grid(static_cast<unsigned>(chunks), static_cast<unsigned>(columns));
  const Launch launch{context.op, context.device.index};
  launch(sum_chunks<T, V>, grid, dim3(kColumnThreads), params);
  launch(join_chunks<T, V>, grid, dim3(kColumnThreads), params);
}

// See Note [Gradients of rows].
void embedding_backward_kernel(const KernelContext& context, const EmbeddingBackwardAttrs& attrs) {
  const auto optional = [&](size_t i) { return i < context.in.size() ? context.in[i] : nullptr; };
  const int device = context.device.index;
  const View& out = context.output();
  fill_elements(context.op, out, 0);
  const Packed grad(context.op, device, context.input(0));
  const Packed indices(context.op, device, context.input(1));
  const int64_t count = indices.view().numel;
  if (count == 0 || out.numel == 0) return;
  std::optional<Packed> rows, scale;
  if (optional(2)) rows.emplace(context.op, device, *optional(2));
  if (optional(3)) scale.emplace(context.op, device, *optional(3));
  const PairMemory memory(context.op, device, count);
  const SortPairs pairs =
      sorted_indices(context, attrs, indices.view(), rows ? &rows->view() : nullptr, memory);

  SumParams params{};
  params.keys = pairs.keys;
  params.positions = pairs.values;
  params.count = count;
  params.nowhere = static_cast<uint64_t>(attrs.num_embeddings);
  // A long run is put together chunk by chunk: not too many of them.
  params.chunk = std::max<int64_t>(
      32, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count / 4096 + 1))));
  params.grad = grad.view().as<const char>();
  params.rows = rows ? rows->view().as<const char>() : nullptr;
  params.rows_dtype = rows ? rows->view().dtype : DType::int64;
  params.scale = scale ? scale->view().data : nullptr;
  params.out = out.as<char>();
  params.width = grad.view().sizes[1];
  const long long chunks = (count + params.chunk - 1) / params.chunk;
  const size_t wide = out.dtype == kFloat64 ? 8 : 4;
  const size_t partial = static_cast<size_t>(chunks * params.width) * wide;
  const Scratch scratch(device, 2 * partial);
  params.heads = scratch.data();
  params.tails = scratch.data() + partial;
  const auto address =
      reinterpret_cast<uintptr_t>(params.grad) | reinterpret_cast<uintptr_t>(params.out);
  visit_floating(out.dtype, context.op, [&]<class T>() {
    constexpr int kPack = sizeof(T) == 8 ? 2 : 4;
    if (params.width % kPack == 0 && address % (kPack * sizeof(T)) == 0)
      sum_runs<T, kPack>(context, params, chunks);
    else
      sum_runs<T, 1>(context, params, chunks);
  });
}

}  // namespace

void register_embedding_cuda() {
  embedding_op.set_kernel(DeviceType::cuda, embedding_kernel);
  embedding_backward_op.set_kernel(DeviceType::cuda, embedding_backward_kernel);
}

}  // namespace tensora::cuda
