#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/loops/host_walk.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/rotary.h"

namespace tensora::cuda {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 30;  // of queries, and of keys

/// One tensor to turn: rows of leading dims, in elements. Steps of the tables are 0 where they
/// broadcast.
struct Turned {
  const char* x;
  char* out;
  int64_t rows;
  int dims;
  Divisor sizes[kMaxDims];
  int64_t steps_x[kMaxDims], steps_out[kMaxDims], steps_cos[kMaxDims], steps_sin[kMaxDims];
  int64_t col_x, col_out;
};

/// Queries and keys, one after the other; a part of all their rows from `first` on.
struct TurnedPair {
  Turned tensor[2];
  unsigned first, count;  // count: of threads
  Divisor groups;         // threads per row
};

struct Tables {
  const char *cos, *sin;
  int64_t col_cos, col_sin;
  int half, size, table_bytes;                           // table_bytes: of an element
  bool table_is_bfloat16, packed, interleaved, inverse;  // packed: float32, four at a time
};

template <class C>
__device__ C table_value(const char* data, int64_t at, const Tables& tables) {
  if (tables.table_bytes == 2)
    return tables.table_is_bfloat16 ? load_value<C>(reinterpret_cast<const BFloat16*>(data)[at])
                                    : load_value<C>(reinterpret_cast<const Half*>(data)[at]);
  if (tables.table_bytes == 8) return C(reinterpret_cast<const double*>(data)[at]);
  return C(reinterpret_cast<const float*>(data)[at]);
}

template <class C, int V>
__device__ inline void load_table(const char* data, int64_t at, int64_t col, const Tables& tables,
                                  C (&to)[V]) {
  if constexpr (V % 4 == 0)
    if (tables.packed) return load_pack<float>(data + at * 4, to);
#pragma unroll
  for (int i = 0; i < V; ++i) to[i] = table_value<C>(data, at + i * col, tables);
}

// A thread turns V pairs, or copies 2 V of the elements behind them. With V > 1 all rows are
// contiguous and aligned.
template <class T, class C, int V>
__global__ void __launch_bounds__(kThreads)
    turn_pairs(const __grid_constant__ TurnedPair both, const __grid_constant__ Tables tables) {
  const unsigned number = blockIdx.x * kThreads + threadIdx.x;
  if (number >= both.count) return;
  const unsigned line = both.groups.divide(number);
  const int group = static_cast<int>(number - line * both.groups.divisor);
  unsigned row = both.first + line;
  const auto queries = static_cast<unsigned>(both.tensor[0].rows);
  const Turned& turned = both.tensor[row < queries ? 0 : 1];
  if (row >= queries) row -= queries;
  int64_t x = 0, out = 0, cos = 0, sin = 0;
  for (int d = turned.dims - 1; d >= 0; --d) {
    const unsigned rest = turned.sizes[d].divide(row);
    const int64_t i = row - rest * turned.sizes[d].divisor;
    row = rest;
    x += i * turned.steps_x[d];
    out += i * turned.steps_out[d];
    cos += i * turned.steps_cos[d];
    sin += i * turned.steps_sin[d];
  }
  const T* const from = reinterpret_cast<const T*>(turned.x) + x;
  T* const to = reinterpret_cast<T*>(turned.out) + out;
  const int pair = group * V;
  if (pair >= tables.half) {  // behind the pairs
    for (int i = 2 * tables.half + (pair - tables.half) * 2, end = i + 2 * V;
         i < end && i < tables.size; ++i)
      to[i * turned.col_out] = from[i * turned.col_x];
    return;
  }
  C c[V], s[V];
  load_table(tables.cos, cos + pair * tables.col_cos, tables.col_cos, tables, c);
  load_table(tables.sin, sin + pair * tables.col_sin, tables.col_sin, tables, s);
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (tables.inverse) s[i] = -s[i];
  if constexpr (V == 1) {
    const int first = tables.interleaved ? 2 * pair : pair;
    const int second = tables.interleaved ? first + 1 : pair + tables.half;
    const C a = load_value<C>(from[first * turned.col_x]),
            b = load_value<C>(from[second * turned.col_x]);
    to[first * turned.col_out] = store_value<T>(a * c[0] - b * s[0]);
    to[second * turned.col_out] = store_value<T>(b * c[0] + a * s[0]);
  } else if (tables.interleaved) {
    C pairs[2 * V];
    load_pack<T>(reinterpret_cast<const char*>(from + 2 * pair), pairs);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const C a = pairs[2 * i], b = pairs[2 * i + 1];
      pairs[2 * i] = a * c[i] - b * s[i];
      pairs[2 * i + 1] = b * c[i] + a * s[i];
    }
    store_pack<T>(reinterpret_cast<char*>(to + 2 * pair), pairs);
  } else {
    C a[V], b[V];
    load_pack<T>(reinterpret_cast<const char*>(from + pair), a);
    load_pack<T>(reinterpret_cast<const char*>(from + pair + tables.half), b);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const C first = a[i];
      a[i] = first * c[i] - b[i] * s[i];
      b[i] = b[i] * c[i] + first * s[i];
    }
    store_pack<T>(reinterpret_cast<char*>(to + pair), a);
    store_pack<T>(reinterpret_cast<char*>(to + pair + tables.half), b);
  }
}

Turned turned_of(const KernelContext& context, size_t i) {
  const View &x = context.input(2 + i), &out = context.output(i);
  Shape lead = x.sizes;
  lead.resize(x.dim() - 1);
  const auto table_steps = [&](const View& table) {
    Shape sizes = table.sizes;
    Strides strides = table.strides;
    sizes.resize(table.dim() - 1);
    strides.resize(table.dim() - 1);
    return broadcast_strides(sizes, strides, lead);
  };
  const Strides cos = table_steps(context.input(0)), sin = table_steps(context.input(1));
  const int last = x.dim() - 1;
  Turned result{.x = x.as<const char>(),
                .out = out.as<char>(),
                .rows = lead.numel(),
                .dims = last,
                .col_x = x.strides[last],
                .col_out = out.strides[last]};
  check(result.rows < kMostRows, context.op, ": expected fewer than ", kMostRows, " rows, got ",
        result.rows);
  for (int d = 0; d < last; ++d) {
    const DivisorNumbers numbers = divisor_numbers(std::max<int64_t>(1, lead[d]));
    result.sizes[d] = {numbers.divisor, numbers.multiplier, numbers.shift};
    result.steps_x[d] = x.strides[d];
    result.steps_out[d] = out.strides[d];
    result.steps_cos[d] = cos[d];
    result.steps_sin[d] = sin[d];
  }
  return result;
}

// Whether groups of `elements` begin at multiples of their size in every row.
bool is_aligned(const Turned& turned, int elements, int64_t element_bytes) {
  const auto bytes = static_cast<uintptr_t>(elements * element_bytes);
  bool aligned = turned.col_x == 1 && turned.col_out == 1 &&
                 reinterpret_cast<uintptr_t>(turned.x) % bytes == 0 &&
                 reinterpret_cast<uintptr_t>(turned.out) % bytes == 0;
  for (int d = 0; d < turned.dims; ++d)
    aligned &= turned.sizes[d].divisor == 1 ||
               (turned.steps_x[d] % elements == 0 && turned.steps_out[d] % elements == 0);
  return aligned;
}

// Whether four numbers of a table can be read as one.
bool takes_fours(const View& table) {
  bool fits = table.dtype == DType::float32 && table.strides[table.dim() - 1] == 1 &&
              reinterpret_cast<uintptr_t>(table.data) % 16 == 0;
  for (int d = 0; d < table.dim() - 1; ++d)
    fits &= table.sizes[d] == 1 || table.strides[d] % 4 == 0;
  return fits;
}

void rotary_kernel(const KernelContext& context, const RotaryAttrs& attrs) {
  const View &cos = context.input(0), &sin = context.input(1), &x = context.input(2);
  const Tables tables{.cos = cos.as<const char>(),
                      .sin = sin.as<const char>(),
                      .col_cos = cos.strides[cos.dim() - 1],
                      .col_sin = sin.strides[sin.dim() - 1],
                      .half = static_cast<int>(cos.sizes[cos.dim() - 1]),
                      .size = static_cast<int>(x.sizes[x.dim() - 1]),
                      .table_bytes = static_cast<int>(element_size(cos.dtype)),
                      .table_is_bfloat16 = cos.dtype == DType::bfloat16,
                      .interleaved = attrs.interleaved,
                      .inverse = attrs.inverse};
  const bool two = context.out.size() > 1;
  const Turned query = turned_of(context, 0);
  Turned key = two ? turned_of(context, 1) : query;
  if (!two) key.rows = 0;
  const auto run = [&]<class T, int V>(const Turned& a, const Turned& b, int size) {
    using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
    Tables own = tables;
    own.size = size;
    own.packed = V > 1 && takes_fours(cos) && takes_fours(sin);
    const int behind = size - 2 * tables.half;
    const int64_t groups = (tables.half + V - 1) / V + (behind + 2 * V - 1) / (2 * V);
    const DivisorNumbers numbers = divisor_numbers(std::max<int64_t>(1, groups));
    TurnedPair both{{a, b}, 0, 0, {numbers.divisor, numbers.multiplier, numbers.shift}};
    const int64_t rows = a.rows + b.rows, most = (2 * kMostRows - 1) / std::max<int64_t>(1, groups);
    for (int64_t first = 0; first < rows && groups > 0; first += most) {
      both.first = static_cast<unsigned>(first);
      both.count = static_cast<unsigned>(std::min(most, rows - first) * groups);
      Launch{context.op, context.device.index}(turn_pairs<T, C, V>,
                                               dim3((both.count + kThreads - 1) / kThreads),
                                               dim3(kThreads), both, own);
    }
  };
  visit_floating(x.dtype, context.op, [&]<class T>() {
    // Groups of 16 bytes, or of four elements.
    const auto fits = [&](int group) {
      const int elements = attrs.interleaved ? 2 * group : group;
      const int64_t bytes = sizeof(T);
      return tables.half % group == 0 && is_aligned(query, elements, bytes) &&
             is_aligned(key, elements, bytes);
    };
    const auto launch = [&](const Turned& a, const Turned& b, int size) {
      if (sizeof(T) == 2 && fits(8))
        run.template operator()<T, 8>(a, b, size);
      else if (fits(4))
        run.template operator()<T, 4>(a, b, size);
      else
        run.template operator()<T, 1>(a, b, size);
    };
    Turned none = query;
    none.rows = 0;
    const auto key_size =
        two ? static_cast<int>(context.input(3).sizes[context.input(3).dim() - 1]) : tables.size;
    if (key_size == tables.size) return launch(query, key, tables.size);
    launch(query, none, tables.size);
    launch(key, none, key_size);
  });
}

}  // namespace

void register_rotary_cuda() { rotary_op.set_kernel(DeviceType::cuda, rotary_kernel); }

}  // namespace tensora::cuda
