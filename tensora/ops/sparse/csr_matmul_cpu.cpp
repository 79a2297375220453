#include "tensora/ops/sparse/csr_matmul.h"

#include "tensora/backend/cpu/gemm_simd.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/sparse/csr_pattern.h"

// Note [Sparse products on the CPU]
// A row of the result is computed by one thread, entry after entry, with the sums of a block of
// columns in registers: no result depends on the number of threads. The rows are divided among the
// threads by their number of entries. What is left of the columns after the last whole vector is
// computed by a vector that overlaps the one before; the columns they share get the same bits
// twice. Products with few columns have several sums per column, of every second or fourth entry,
// because a chain of additions would wait for each one. Rows of the dense matrix are read in random
// order, so they are requested some entries ahead.

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kWorkPerTask = 32768;  // multiplications
constexpr int64_t kEntriesAhead = 8;

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Some columns of one row: the sums of values[e] * dense[col[e]] over its entries, of vectors side
/// by side; the last one begins at column `last`, and may overlap the one before.
template <int Vectors, int Lanes, class T>
[[gnu::always_inline]] inline void row_block(const T* values, const int64_t* col, int64_t count,
                                             const T* dense, int64_t stride, int64_t last, T* out) {
  using C = Compute<T>;
  using V = VectorN<C, Lanes>;
  constexpr int kSums = Vectors >= 4 ? 1 : Vectors >= 2 ? 2 : 4;
  V sums[kSums][Vectors] = {};
  const auto column = [&](int v) { return v == Vectors - 1 ? last : v * Lanes; };
  const auto add = [&](int64_t e, int which) __attribute__((always_inline)) {
    const C value = widen<C>(values[e]);
    const T* const from = dense + col[e] * stride;
    for (int v = 0; v < Vectors; ++v) {
      const V loaded = load_wide<C, Lanes>(from + column(v));
      if constexpr (Lanes == kLanes<C>)
        sums[which][v] = multiply_add<C>(value, loaded, sums[which][v]);
      else
        sums[which][v] += loaded * value;
    }
  };
  int64_t e = 0;
  for (; e + kSums <= count; e += kSums) {
    if constexpr (Vectors * Lanes * sizeof(T) >= 64)
      if (e + kEntriesAhead < count) {
        const auto* next = reinterpret_cast<const char*>(dense + col[e + kEntriesAhead] * stride);
        for (size_t line = 0; line < Vectors * Lanes * sizeof(T); line += 64)
          __builtin_prefetch(next + line);
      }
    for (int which = 0; which < kSums; ++which) add(e + which, which);
  }
  for (; e < count; ++e) add(e, 0);
  for (int which = 1; which < kSums; ++which)
    for (int v = 0; v < Vectors; ++v) sums[0][v] += sums[which][v];
  for (int v = 0; v < Vectors; ++v) {
    if constexpr (Lanes == kLanes<C>)
      store_narrow<T, C>(out + column(v), sums[0][v]);
    else
      for (int lane = 0; lane < Lanes; ++lane)
        out[column(v) + lane] = narrow<T>(C(sums[0][v][lane]));
  }
}

/// All columns of one row, at least Lanes of them; `Most` vectors at a time.
template <int Lanes, int Most, class T>
void row_by_blocks(const T* values, const int64_t* col, int64_t count, const T* dense,
                   int64_t stride, int64_t n, T* out) {
  int64_t at = 0;
  const auto block = [&]<int Vectors>(int64_t last) __attribute__((always_inline)) {
    row_block<Vectors, Lanes>(values, col, count, dense + at, stride, last, out + at);
  };
  for (; n - at >= Most * Lanes; at += Most * Lanes)
    block.template operator()<Most>((Most - 1) * Lanes);
  const int64_t vectors = (n - at + Lanes - 1) / Lanes, last = n - at - Lanes;
  const auto rest = [&]<int... Fewer>(std::integer_sequence<int, Fewer...>) {
    ((vectors == Fewer + 1 ? block.template operator()<Fewer + 1>(last) : void()), ...);
  };
  rest(std::make_integer_sequence<int, Most>());
}

template <class T>
void row_of_columns(const T* values, const int64_t* col, int64_t count, const T* dense,
                    int64_t stride, int64_t n, T* out) {
  constexpr int kFull = kLanes<Compute<T>>;
  if (n >= kFull) return row_by_blocks<kFull, 4>(values, col, count, dense, stride, n, out);
  if constexpr (kFull > 8)
    if (n >= 8) return row_by_blocks<8, 2>(values, col, count, dense, stride, n, out);
  if constexpr (kFull > 4)
    if (n >= 4) return row_by_blocks<4, 2>(values, col, count, dense, stride, n, out);
  if constexpr (kFull > 2)
    if (n >= 2) return row_by_blocks<2, 2>(values, col, count, dense, stride, n, out);
}

template <class T>
void row_of_one_column(const T* values, const int64_t* col, int64_t count, const T* dense,
                       int64_t stride, T* out) {
  using C = Compute<T>;
  C sums[4] = {};
  int64_t e = 0;
  for (; e + 4 <= count; e += 4)
    for (int64_t k = 0; k < 4; ++k)
      sums[k] =
          multiply_add(widen<C>(values[e + k]), widen<C>(dense[col[e + k] * stride]), sums[k]);
  for (; e < count; ++e)
    sums[0] = multiply_add(widen<C>(values[e]), widen<C>(dense[col[e] * stride]), sums[0]);
  *out = narrow<T>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/// Integers and complex numbers.
template <class T>
void row_of_others(const T* values, const int64_t* col, int64_t count, const T* dense,
                   int64_t stride, int64_t n, T* out) {
  using Acc = accumulate_t<T>;
  constexpr int64_t kColumns = 64;
  for (int64_t at = 0; at < n; at += kColumns) {
    const int64_t width = std::min(kColumns, n - at);
    Acc sums[kColumns] = {};
    for (int64_t e = 0; e < count; ++e) {
      const Acc value = static_cast<Acc>(values[e]);
      const T* const from = dense + col[e] * stride + at;
      for (int64_t j = 0; j < width; ++j) sums[j] += value * static_cast<Acc>(from[j]);
    }
    for (int64_t j = 0; j < width; ++j) out[at + j] = static_cast<T>(sums[j]);
  }
}

template <class T>
inline constexpr bool kIsReal = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Calls body(row) for all rows, with the columns of their entries checked.
template <class Body>
void each_row(const CsrPattern& pattern, int64_t length, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, kWorkPerTask / std::max<int64_t>(1, length));
  parallel_for(pattern.work(), grain, [&](int64_t begin, int64_t end) {
    const int64_t first = pattern.row_at(begin), last = pattern.row_at(end);
    pattern.check_columns(pattern.crow[first], pattern.crow[last]);
    for (int64_t row = first; row < last; ++row) body(row);
  });
}

template <class T>
void multiply(const CsrPattern& pattern, const T* values, const View& dense, const View& out) {
  const T* const from = dense.as<const T>();
  const int64_t n = dense.sizes[1], stride = dense.strides[0];
  each_row(pattern, n, [&](int64_t row) {
    const int64_t begin = pattern.crow[row], count = pattern.crow[row + 1] - begin;
    const int64_t* const col = pattern.col + begin;
    T* const to = out.as<T>() + row * n;
    if constexpr (!kIsReal<T>)
      row_of_others(values + begin, col, count, from, stride, n, to);
    else if (n == 1)
      row_of_one_column(values + begin, col, count, from, stride, to);
    else
      row_of_columns(values + begin, col, count, from, stride, n, to);
  });
}

template <class T>
T dot(const T* a, const T* b, int64_t n) {
  if constexpr (kIsReal<T>) {
    using C = Compute<T>;
    constexpr int kFull = kLanes<C>;
    C rest = 0;
    int64_t at = 0;
    const auto add_rest = [&]() __attribute__((always_inline)) {
      for (; at < n; ++at) rest = multiply_add(widen<C>(a[at]), widen<C>(b[at]), rest);
      return rest;
    };
    if (n < kFull) return narrow<T>(add_rest());
    Vector<C> sums[4] = {};
    const auto add = [&](int64_t place, int which) __attribute__((always_inline)) {
      const auto x = load_wide<C, kFull>(a + place);
      sums[which] += x * load_wide<C, kFull>(b + place);
    };
    if (n < 4 * kFull) {
      for (; at + kFull <= n; at += kFull) add(at, 0);
      return narrow<T>(sum_lanes<C, kFull>(sums[0]) + add_rest());
    }
    for (; at + 4 * kFull <= n; at += 4 * kFull)
      for (int which = 0; which < 4; ++which) add(at + which * kFull, which);
    for (; at + kFull <= n; at += kFull) add(at, 0);
    return narrow<T>(sum_lanes<C, kFull>((sums[0] + sums[1]) + (sums[2] + sums[3])) + add_rest());
  } else {
    using Acc = accumulate_t<T>;
    Acc sum{};
    for (int64_t k = 0; k < n; ++k) sum += static_cast<Acc>(a[k]) * static_cast<Acc>(b[k]);
    return static_cast<T>(sum);
  }
}

/// The sums of four vectors' lanes, each added in the order of sum_lanes.
template <class C, int Lanes>
[[gnu::always_inline]] inline VectorN<C, 4> sum_lanes_of_four(const VectorN<C, Lanes>* v) {
  if constexpr (Lanes > 4) {
    using HalfVector = VectorN<C, Lanes / 2>;
    HalfVector folded[4];
    for (int k = 0; k < 4; ++k)
      folded[k] = load<HalfVector>(reinterpret_cast<const C*>(v + k)) +
                  load<HalfVector>(reinterpret_cast<const C*>(v + k) + Lanes / 2);
    return sum_lanes_of_four<C, Lanes / 2>(folded);
  } else {
    const auto low = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5) +
                     __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    const auto high = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5) +
                      __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    return __builtin_shufflevector(low, high, 0, 1, 4, 5) +
           __builtin_shufflevector(low, high, 2, 3, 6, 7);
  }
}

/// Four dot products with one row. Adding up the lanes costs as much as a short row itself.
template <class T>
void four_dots(const T* a, const T* dense, const int64_t* col, int64_t stride, int64_t n, T* out) {
  using C = Compute<T>;
  constexpr int kFull = kLanes<C>;
  const T* const rows[] = {dense + col[0] * stride, dense + col[1] * stride,
                           dense + col[2] * stride, dense + col[3] * stride};
  Vector<C> sums[4] = {};
  int64_t at = 0;
  for (; at + kFull <= n; at += kFull) {
    const auto x = load_wide<C, kFull>(a + at);
    for (int k = 0; k < 4; ++k) sums[k] += x * load_wide<C, kFull>(rows[k] + at);
  }
  const auto all = sum_lanes_of_four<C, kFull>(sums);
  for (int k = 0; k < 4; ++k) {
    C rest = 0;
    for (int64_t j = at; j < n; ++j)
      rest = multiply_add(widen<C>(a[j]), widen<C>(rows[k][j]), rest);
    out[k] = narrow<T>(C(all[k]) + rest);
  }
}

/// The dot products of one row with those that the columns name.
template <class T>
void dots(const T* left, const T* dense, const int64_t* col, int64_t count, int64_t stride,
          int64_t n, T* out) {
  int64_t e = 0;
  if constexpr (kIsReal<T>) {
    using C = Compute<T>;
    if (n == 1) {
      const C factor = widen<C>(*left);
      for (; e < count; ++e) out[e] = narrow<T>(factor * widen<C>(dense[col[e] * stride]));
    } else if (kLanes<C> >= 4 && n >= kLanes<C>) {
      if constexpr (kLanes<C> >= 4)
        for (; e + 4 <= count; e += 4) {
          for (int64_t k = e + kEntriesAhead; k < std::min(count, e + kEntriesAhead + 4); ++k)
            __builtin_prefetch(dense + col[k] * stride);
          four_dots(left, dense, col + e, stride, n, out + e);
        }
    }
  }
  for (; e < count; ++e) out[e] = dot(left, dense + col[e] * stride, n);
}

template <class T>
void sample(const CsrPattern& pattern, const View& mat1, const View& mat2, const View& out) {
  const int64_t n = mat1.sizes[1];
  each_row(pattern, n, [&](int64_t row) {
    const int64_t begin = pattern.crow[row], count = pattern.crow[row + 1] - begin;
    dots(mat1.as<const T>() + row * mat1.strides[0], mat2.as<const T>(), pattern.col + begin, count,
         mat2.strides[0], n, out.as<T>() + begin);
  });
}

void csr_matmul_kernel(const KernelContext& context, const NoAttrs&) {
  const View &dense = context.input(3), &out = context.output();
  const CsrPattern pattern(context.op, context.input(0), context.input(1), dense.sizes[0]);
  visit_computing(out.dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>)
      multiply(pattern, context.input(2).as<const T>(), dense, out);
  });
}

void csr_sampled_matmul_kernel(const KernelContext& context, const NoAttrs&) {
  const View &mat1 = context.input(2), &mat2 = context.input(3), &out = context.output();
  const CsrPattern pattern(context.op, context.input(0), context.input(1), mat2.sizes[0]);
  visit_computing(out.dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) sample<T>(pattern, mat1, mat2, out);
  });
}

}  // namespace

void register_csr_matmul_cpu() {
  csr_matmul_op.set_kernel(DeviceType::cpu, csr_matmul_kernel);
  csr_sampled_matmul_op.set_kernel(DeviceType::cpu, csr_sampled_matmul_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
