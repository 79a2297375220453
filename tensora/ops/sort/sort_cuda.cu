#include "tensora/backend/cuda/loops/block_sort.cuh"
#include "tensora/backend/cuda/loops/sort.h"
#include "tensora/ops/sort/sort.h"
#include "tensora/ops/sort/sort_lines.cuh"

namespace tensora::cuda {
namespace {

// Rows of up to kBlockItems elements are sorted in shared memory, several short ones by one block;
// longer ones by digits (Note [Radix sort]).
constexpr unsigned kBlockItems = 2048, kBlockThreads = 256;

struct RowsParams {
  const char* in /* rows length */;
  char* values;
  int64_t* indices;
  long long rows, count;
  unsigned length, padded;  // of a row, and its room in shared memory, a power of two
  DType dtype;
  bool descending;
};

template <class Key>
__global__ void __launch_bounds__(kBlockThreads)
    sort_rows(const __grid_constant__ RowsParams params) {
  __shared__ KeyedItem<Key> items[kBlockItems];
  const unsigned per_block = kBlockItems / params.padded;
  const long long first_row = static_cast<long long>(blockIdx.x) * per_block;
  for (unsigned i = threadIdx.x; i < kBlockItems; i += kBlockThreads) {
    const unsigned column = i & (params.padded - 1);
    const long long row = first_row + i / params.padded;
    // What does not exist comes last.
    items[i] = {static_cast<Key>(~Key(0)), ~0u};
    if (column < params.length && row < params.rows)
      items[i] = {
          load_key<Key>(params.in, row * params.length + column, params.dtype, params.descending),
          column};
  }
  sort_runs(items, kBlockItems, params.padded,
            [](const KeyedItem<Key>& a, const KeyedItem<Key>& b) { return a < b; });
  for (unsigned i = threadIdx.x; i < kBlockItems; i += kBlockThreads) {
    const unsigned column = i & (params.padded - 1);
    const long long row = first_row + i / params.padded;
    if (column >= params.length || row >= params.rows) continue;
    const KeyedItem<Key> item = items[i];
    const long long start = row * params.length;
    store_element<Key>(params.in, start + item.index, params.values, start + column, params.dtype,
                       item.key, params.descending);
    params.indices[start + column] = item.index;
  }
}

template <class Key>
__global__ void __launch_bounds__(kThreads)
    make_keys(const __grid_constant__ RowsParams params, Key* keys) {
  const long long stride = static_cast<long long>(gridDim.x) * kThreads;
  for (long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; i < params.count;
       i += stride)
    keys[i] = load_key<Key>(params.in, i, params.dtype, params.descending);
}

template <class Key>
__global__ void __launch_bounds__(kThreads)
    store_sorted(const __grid_constant__ RowsParams params, Pairs<Key> sorted) {
  const long long stride = static_cast<long long>(gridDim.x) * kThreads;
  for (long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; i < params.count;
       i += stride) {
    const unsigned index = sorted.values[i];
    params.indices[i] = index;
    visit_keyed<Key>(params.dtype, [&]<class T>() {
      const Key key = params.descending ? sorted.keys[i] ^ kKeyMask<T> : sorted.keys[i];
      T value = element_of_key<T>(key);
      if (!key_tells<T>(key))
        value = reinterpret_cast<const T*>(params.in)[i / params.length * params.length + index];
      reinterpret_cast<T*>(params.values)[i] = value;
    });
  }
}

template <class Key>
void sort_long_rows(const KernelContext& context, const RowsParams& params) {
  const int device = context.device.index;
  const auto count = static_cast<size_t>(params.count);
  const Scratch keys(device, 2 * count * sizeof(Key)), values(device, 2 * count * 4);
  Key* const first_keys = reinterpret_cast<Key*>(keys.data());
  auto* const first_values = reinterpret_cast<uint32_t*>(values.data());
  constexpr int64_t kPerThread = 8;
  const int64_t wanted = (params.count + kThreads * kPerThread - 1) / (kThreads * kPerThread);
  const dim3 blocks(static_cast<unsigned>(std::min<int64_t>(wanted, 1 << 30)));
  const Launch launch{context.op, device};
  launch(make_keys<Key>, blocks, dim3(kThreads), params, first_keys);
  const int bits = 8 * static_cast<int>(element_size(params.dtype));
  const Pairs<Key> sorted = sort_lines_of_pairs<Key>(context.op, device, {first_keys, first_values},
                                                     {first_keys + count, first_values + count},
                                                     nullptr, params.rows, params.length, 0, bits);
  launch(store_sorted<Key>, blocks, dim3(kThreads), params, sorted);
}

void sort_kernel(const KernelContext& context, const SortAttrs& attrs) {
  const View& in = context.input(0);
  if (in.numel == 0) return;
  const int dim = wrap_dim(attrs.dim, in.dim(), context.op);
  const RowsOf source(context.op, in, dim), values(context.op, context.output(0), dim),
      indices(context.op, context.output(1), dim);
  check(source.length < int64_t{1} << 31, context.op,
        ": sorting more than 2^31 elements is not supported on cuda");
  source.read();
  RowsParams params{};
  params.in = source.data();
  params.values = values.data();
  params.indices = reinterpret_cast<int64_t*>(indices.data());
  params.rows = source.rows;
  params.count = in.numel;
  params.length = static_cast<unsigned>(source.length);
  params.padded = std::bit_ceil(params.length);
  params.dtype = in.dtype;
  params.descending = attrs.descending;
  visit_key(in.dtype, [&]<class Key>() {
    if (params.length > kBlockItems) return sort_long_rows<Key>(context, params);
    const int64_t per_block = kBlockItems / params.padded;
    const int64_t blocks = (params.rows + per_block - 1) / per_block;
    check(blocks < int64_t{1} << 31, context.op, ": ", params.rows,
          " rows are too many to be sorted on cuda");
    Launch{context.op, context.device.index}(sort_rows<Key>, dim3(static_cast<unsigned>(blocks)),
                                             dim3(kBlockThreads), params);
  });
  values.write_back();
  indices.write_back();
}

}  // namespace

void register_sort_cuda() { sort_op.set_kernel(DeviceType::cuda, sort_kernel); }

}  // namespace tensora::cuda
