#include "tensora/backend/cuda/loops/elements.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/rotary.h"

namespace tensora::cuda {
namespace {

constexpr int kMostDims = 8;

/// One tensor to turn: rows of leading dims, in elements. Steps of the tables are 0 where they
/// broadcast.
struct Turned {
  const char* x;
  char* out;
  int64_t rows;
  int dims;
  int64_t sizes[kMostDims], steps_x[kMostDims], steps_out[kMostDims], steps_cos[kMostDims],
      steps_sin[kMostDims];
  int64_t col_x, col_out;
};

struct Tables {
  const char *cos, *sin;
  int64_t col_cos, col_sin;
  int half, size, table_bytes;  // table_bytes: of an element
  bool table_is_bfloat16, interleaved, inverse;
};

template <class C>
__device__ C table_value(const char* data, int64_t at, const Tables& tables) {
  if (tables.table_bytes == 2)
    return tables.table_is_bfloat16 ? load_value<C>(reinterpret_cast<const BFloat16*>(data)[at])
                                    : load_value<C>(reinterpret_cast<const Half*>(data)[at]);
  if (tables.table_bytes == 8) return C(reinterpret_cast<const double*>(data)[at]);
  return C(reinterpret_cast<const float*>(data)[at]);
}

// A thread turns V pairs, or copies 2 V of the elements behind them. With V > 1 all rows are
// contiguous and aligned.
template <class T, class C, int V>
__global__ void __launch_bounds__(kThreads)
    turn_pairs(const Turned query, const Turned key, const Tables tables, int groups,
               int64_t count) {
  const int64_t number = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (number >= count) return;
  const int group = static_cast<int>(number % groups);
  int64_t row = number / groups;
  const Turned& turned = row < query.rows ? query : key;
  if (row >= query.rows) row -= query.rows;
  int64_t x = 0, out = 0, cos = 0, sin = 0;
  for (int d = turned.dims - 1; d >= 0; --d) {
    const int64_t i = row % turned.sizes[d];
    row /= turned.sizes[d];
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
#pragma unroll
  for (int i = 0; i < V; ++i) {
    c[i] = table_value<C>(tables.cos, cos + (pair + i) * tables.col_cos, tables);
    s[i] = table_value<C>(tables.sin, sin + (pair + i) * tables.col_sin, tables);
    if (tables.inverse) s[i] = -s[i];
  }
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
  check(last <= kMostDims, context.op, ": expected at most ", kMostDims + 1, " dimensions, got ",
        x.dim());
  for (int d = 0; d < last; ++d) {
    result.sizes[d] = lead[d];
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
    aligned &= turned.sizes[d] == 1 ||
               (turned.steps_x[d] % elements == 0 && turned.steps_out[d] % elements == 0);
  return aligned;
}

void rotary_kernel(const KernelContext& context, const RotaryAttrs& attrs) {
  constexpr int kGroup = 4;
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
    const int behind = size - 2 * tables.half;
    const int groups = (tables.half + V - 1) / V + (behind + 2 * V - 1) / (2 * V);
    const int64_t count = (a.rows + b.rows) * groups;
    Launch{context.op, context.device.index}(
        turn_pairs<T, C, V>, dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)),
        dim3(kThreads), a, b, own, groups, count);
  };
  visit_floating(x.dtype, context.op, [&]<class T>() {
    const int elements = attrs.interleaved ? 2 * kGroup : kGroup;
    const int64_t bytes = sizeof(T);
    const bool aligned = tables.half % kGroup == 0 && is_aligned(query, elements, bytes) &&
                         is_aligned(key, elements, bytes);
    const auto launch = [&](const Turned& a, const Turned& b, int size) {
      if (aligned)
        run.template operator()<T, kGroup>(a, b, size);
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
