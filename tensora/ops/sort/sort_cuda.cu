#include "tensora/backend/cuda/loops/block_sort.cuh"
#include "tensora/backend/cuda/loops/sort.h"
#include "tensora/ops/sort/sort.h"
#include "tensora/ops/sort/sort_lines.cuh"
#include "tensora/ops/sort/sort_values_op.h"

namespace tensora::cuda {
namespace {

// Rows of up to kBlockItems elements are sorted in shared memory, several short ones by one block;
// longer ones by digits (Note [Radix sort]).
constexpr unsigned kBlockItems = 2048, kBlockThreads = 256;

struct RowsParams {
  const char* in /* rows length */;
  char* values;
  int64_t* indices;  // or null
  long long rows;
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
    if (params.indices) params.indices[start + column] = item.index;
  }
}

void sort_all(const KernelContext& context, RowsParams params) {
  const int device = context.device.index;
  if (params.length > kBlockItems)
    return sort_lines({.op = context.op,
                       .device = device,
                       .dtype = params.dtype,
                       .descending = params.descending,
                       .lines = params.rows,
                       .length = params.length,
                       .from = params.in,
                       .to = params.values,
                       .indices = params.indices});
  params.padded = std::bit_ceil(params.length);
  const int64_t per_block = kBlockItems / params.padded;
  const int64_t blocks = (params.rows + per_block - 1) / per_block;
  check(blocks < int64_t{1} << 31, context.op, ": ", params.rows,
        " rows are too many to be sorted on cuda");
  visit_key(params.dtype, [&]<class Key>() {
    Launch{context.op, device}(sort_rows<Key>, dim3(static_cast<unsigned>(blocks)),
                               dim3(kBlockThreads), params);
  });
}

void check_length(std::string_view op, int64_t length) {
  check(length < int64_t{1} << 31, op,
        ": sorting more than 2^31 elements is not supported on cuda");
}

void sort_kernel(const KernelContext& context, const SortAttrs& attrs) {
  const View& in = context.input(0);
  if (in.numel == 0) return;
  const int dim = wrap_dim(attrs.dim, in.dim(), context.op);
  const ContiguousRows source(context.op, in, dim), values(context.op, context.output(0), dim),
      indices(context.op, context.output(1), dim);
  check_length(context.op, source.length);
  source.read();
  RowsParams params{};
  params.in = source.data();
  params.values = values.data();
  params.indices = reinterpret_cast<int64_t*>(indices.data());
  params.rows = source.rows;
  params.length = static_cast<unsigned>(source.length);
  params.dtype = in.dtype;
  params.descending = attrs.descending;
  sort_all(context, params);
  values.write_back();
  indices.write_back();
}

void sort_values_kernel(const KernelContext& context, const NoAttrs&) {
  const View& in = context.input(0);
  if (in.numel == 0) return;
  check_length(context.op, in.numel);
  RowsParams params{};
  params.in = in.as<const char>();
  params.values = context.output().as<char>();
  params.rows = 1;
  params.length = static_cast<unsigned>(in.numel);
  params.dtype = in.dtype;
  sort_all(context, params);
}

}  // namespace

void register_sort_cuda() {
  sort_op.set_kernel(DeviceType::cuda, sort_kernel);
  sort_values_op.set_kernel(DeviceType::cuda, sort_values_kernel);
}

}  // namespace tensora::cuda
