#include "tensora/backend/cpu/gemm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tensora/backend/cpu/gemm_library.h"
#include "tensora/backend/cpu/gemm_parts.h"
#include "tensora/backend/cpu/gemm_scratch.h"
#include "tensora/backend/cpu/isa.h"
#include "tensora/backend/cpu/packed_operand.h"
#include "tensora/base/check.h"
#include "tensora/base/interrupt.h"
#include "tensora/base/thread_pool.h"
#include "tensora/core/determinism.h"

// Note [Ways through gemm]
// 1. few rows or columns: the skinny kernels stream the large operand once, see
// gemm_skinny_isa.cpp;
// 2. few outputs and a long k: threads sum slices of k, the partial sums are added at the end;
// 3. else blocks: threads take cells of out, as wide as a core's cache holds columns of b;
//    each packs its part of b, or reads it in place when b is small.
// 4. a few rows of a and a large b whose columns are contiguous, a layer's transposed weight:
//    packing b would mean transposing it, which costs up to half as much as the product. There
//    out^T = b^T @ a^T is computed: a is packed, b is read in place and once, out is transposed.
// Plain float and double products go to an installed library before 2 and 3 where that is faster,
// in parts that are divided among our threads; see Note [Libraries on request]. A batch of small
// matrices is split over the batch, and each matrix then runs on one thread.
//
// Note [Same bits for any number of threads]
// The path, the slices of k and the steps of k depend on the shape alone, and a tile of any size
// computes its elements alike, so an element is summed in one order however many threads there are
// and whether or not the pool was free. Only a library's product is split by the number of threads:
// its kernels round differently at the edges of a part, and each part packs an operand again, so
// that parts for more threads than there are would cost time. They depend on the shape and
// get_num_threads(); in deterministic mode the split is that for kDeterministicThreads.

namespace tensora::cpu {

namespace {

using namespace gemm_parts;
using Purpose = GemmScratch::Purpose;

constexpr int64_t kSkinnyRows = 8;                      // of a, when rows of b are contiguous
constexpr int64_t kSkinnyRowsForDots = 16;              // of a, when columns of b are contiguous
constexpr int64_t kParallelWork = 80 * 80 * 80;         // multiplications worth a second thread
constexpr int64_t kSliceWork = 128 * 128 * 128;         // ... worth a slice of k
constexpr int64_t kMostSlices = 32;                     // of k, for as many threads
constexpr int64_t kSharedPackWork = 192 * 192 * 192;    // below it a thread packs for itself
constexpr int64_t kRowsInPlace = 1024;                  // of a, when b is not packed
constexpr int64_t kElementsInPlace = int64_t{1} << 17;  // of such a b
constexpr int64_t kSumsAtOnce = int64_t{1} << 20;       // of a type that is rounded when complete
constexpr int64_t kElementsTransposed = int64_t{1} << 17;  // of b, worth computing out^T
constexpr int64_t kRowsTransposed = 256;                   // of a there, at most
constexpr int64_t kSumsTransposed = int64_t{1} << 14;      // of out^T at once
constexpr int64_t kStreamedElements = int64_t{1} << 15;    // of a skinny product's b, per task
constexpr int64_t kInterruptibleWork = int64_t{1} << 29;   // some milliseconds
constexpr int kDeterministicThreads = 8;

template <class T>
void scale_out(const Product<T>& p) {
  using C = gemm_compute_t<T>;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      T* const place = p.out.at(i, j);
      *place = p.beta == C{0} ? T(C{0}) : T(p.beta * static_cast<C>(*place));
    }
  }
}

// ---- 1. skinny ----

template <class T>
bool is_skinny(const Product<T>& p) {
  return (p.m <= kSkinnyRows && p.b.col_stride == 1) ||
         (p.m <= kSkinnyRowsForDots && p.b.row_stride == 1);
}

template <class T>
void multiply_skinny(const Product<T>& p) {
  using C = gemm_compute_t<T>;
  const SkinnyKernels<T>& skinny = kernels<T>().skinny;
  C* const dense = GemmScratch::of_this_thread().get<C>(Purpose::dense_a, p.m * p.k);
  skinny.gather(p.a, p.m, p.k, dense);
  const bool along_rows = p.m <= kSkinnyRows && p.b.col_stride == 1;
  // Whole vectors of columns, and enough of them to read runs of memory.
  const int64_t grain = along_rows ? std::max<int64_t>(round_up(kStreamedElements / p.k, 64), 256)
                                   : std::max<int64_t>(round_up(kStreamedElements / p.k, 4), 4);
  parallel_for(p.n, grain, [&](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    C* const sums = GemmScratch::of_this_thread().get<C>(Purpose::sums, p.m * n);
    const MatrixView<const T> b = {p.b.at(0, begin), p.b.row_stride, p.b.col_stride};
    const SkinnyProduct<T> product = {.m = p.m, .n = n, .k = p.k, .a = dense, .b = b, .sums = sums};
    along_rows ? skinny.along_rows(product) : skinny.along_columns(product);
    const MatrixView<T> out = {p.out.at(0, begin), p.out.row_stride, p.out.col_stride};
    kernels<T>().block.finish(p.m, n, sums, out, p.alpha, p.beta);
  });
}

// ---- 3. blocks ----

template <class T>
bool reads_b_in_place(const Product<T>& p) {
  // A large b is read faster by packing: in place, each row of a panel is on another page.
  return stored_as_computed<T>() && p.b.col_stride == 1 && p.m <= kRowsInPlace &&
         p.k * p.n <= kElementsInPlace;
}

/// The rows and columns of out that a thread computes at once.
struct Cells {
  int64_t height = 0;
  int64_t width = 0;
  int64_t down = 1;    // so many cells
  int64_t across = 1;  // in so many columns
};

/// Wide ones first, since b is packed anew for each cell. Their size changes no bits.
template <class T>
Cells cells_of(const Product<T>& p) {
  const BlockKernels<T>& block = kernels<T>().block;
  const bool alone = in_parallel_region() || p.work() < kParallelWork;
  const int64_t threads = alone ? 1 : get_num_threads();
  const int64_t most_rows = stored_as_computed<T>() ? p.m : kSumsAtOnce / block.columns_in_cache;
  Cells cells = {.down = ceil_div(p.m, most_rows), .across = ceil_div(p.n, block.columns_in_cache)};
  const auto size = [&] {
    cells.height = round_up(ceil_div(p.m, cells.down), block.panel_height);
    cells.width = round_up(ceil_div(p.n, cells.across), block.column_multiple);
  };
  if (cells.across >= threads) cells.across = round_up(cells.across, threads);
  size();
  while (cells.down * cells.across < threads &&
         (cells.height > block.panel_height || cells.width > block.panel_width)) {
    cells.width >= cells.height ? ++cells.across : ++cells.down;
    size();
  }
  cells.down = ceil_div(p.m, cells.height);
  cells.across = ceil_div(p.n, cells.width);
  return cells;
}

/// A cell on this thread. Each part of b is packed and used while it is in the cache.
template <class T>
void multiply_cell(const Product<T>& p, Range rows, Range cols, bool in_place,
                   Target<gemm_compute_t<T>> target, InterruptibleParts& parts) {
  using C = gemm_compute_t<T>;
  GemmScratch& scratch = GemmScratch::of_this_thread();
  C* const sums =
      target.data ? nullptr : scratch.get<C>(Purpose::cell_sums, rows.size() * cols.size());
  if (sums)
    target = {.data = sums - rows.begin * cols.size() - cols.begin, .row_stride = cols.size()};
  if (in_place) {
    multiply_part<T>(p, {.cols = cols, .depths = {0, p.k}}, rows, cols, target);
  } else {
    const int64_t step = step_of_k<T>(p.k);
    C* const data = scratch.get<C>(Purpose::packed_b,
                                   round_up(cols.size(), kernels<T>().block.vector_width) * step);
    for (int64_t depth = 0; depth < p.k; depth += step) {
      const auto part = [&] {
        PackedB<C> packed = {.cols = cols, .depths = {depth, std::min(depth + step, p.k)}};
        pack_columns(p, packed, cols, data);
        packed.data = data;
        multiply_part(p, packed, rows, cols, target);
      };
      if (!parts.run(part)) return;
      target.beta = C{1};
    }
  }
  if (sums)
    kernels<T>().block.finish(
        rows.size(), cols.size(), sums,
        {p.out.at(rows.begin, cols.begin), p.out.row_stride, p.out.col_stride}, p.alpha, p.beta);
}

template <class T>
void multiply_blocks(const Product<T>& p, const Target<gemm_compute_t<T>>& target) {
  const Cells cells = cells_of(p);
  const bool in_place = reads_b_in_place(p);
  InterruptibleParts parts(p.work() >= kInterruptibleWork);
  parallel_for(cells.down * cells.across, 1, [&](int64_t begin, int64_t end) {
    for (int64_t cell = begin; cell < end; ++cell) {
      const int64_t row = cell % cells.down * cells.height;
      const int64_t col = cell / cells.down * cells.width;
      multiply_cell(p, {row, std::min(row + cells.height, p.m)},
                    {col, std::min(col + cells.width, p.n)}, in_place, target, parts);
    }
  });
}

template <class T>
void finish_rows(const Product<T>& p, const gemm_compute_t<T>* sums) {
  const int64_t grain = std::max<int64_t>(1, kStreamedElements / p.n);
  parallel_for(p.m, grain, [&](int64_t begin, int64_t end) {
    const MatrixView<T> out = {p.out.at(begin, 0), p.out.row_stride, p.out.col_stride};
    kernels<T>().block.finish(end - begin, p.n, sums + begin * p.n, out, p.alpha, p.beta);
  });
}

// ---- 2. slices of k ----

template <class T>
int64_t slices_of_k(const Product<T>& p) {
  const int64_t tiles = ceil_div(p.m, 64) * ceil_div(p.n, 64);
  return std::clamp<int64_t>(p.work() / kSliceWork, 1,
                             std::max<int64_t>(1, kMostSlices / (tiles * tiles)));
}

template <class T>
void multiply_slices(const Product<T>& p, int64_t slices) {
  using C = gemm_compute_t<T>;
  const int64_t outputs = p.m * p.n;
  C* const sums = GemmScratch::of_this_thread().get<C>(Purpose::sums, slices * outputs);
  const int64_t k_slice = round_up(ceil_div(p.k, slices), kernels<T>().block.k_block);
  const int64_t used = ceil_div(p.k, k_slice);
  parallel_for(used, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slice = begin; slice < end; ++slice) {
      Product<T> part = p;
      part.a.data = p.a.at(0, slice * k_slice);
      part.b.data = p.b.at(slice * k_slice, 0);
      part.k = std::min(k_slice, p.k - slice * k_slice);
      multiply_blocks(part, {.data = sums + slice * outputs, .row_stride = p.n});
    }
  });
  for (int64_t slice = 1; slice < used; ++slice) {
    for (int64_t i = 0; i < outputs; ++i) sums[i] += sums[slice * outputs + i];
  }
  finish_rows(p, sums);
}

// ---- 4. few rows and a large transposed b ----

template <class T>
bool multiplies_transposed(const Product<T>& p) {
  return std::is_floating_point_v<T> && p.b.row_stride == 1 && p.b.col_stride != 1 &&
         p.out.col_stride == 1 && p.k * p.n >= kElementsTransposed && p.n >= 2 * p.m &&
         p.m <= std::min(kRowsTransposed, kernels<T>().block.columns_in_place) &&
         slices_of_k(p) == 1;
}

template <class T>
void multiply_transposed(const Product<T>& p) {
  using C = gemm_compute_t<T>;
  const Product<T> flipped = transposed(p);
  const BlockKernels<T>& block = kernels<T>().block;
  PackedB<C> packed = {.cols = {0, p.m}, .depths = {0, p.k}};
  C* const data = GemmScratch::of_this_thread().get<C>(Purpose::packed_a,
                                                       round_up(p.m, block.vector_width) * p.k);
  pack_columns(flipped, packed, packed.cols, data);
  packed.data = data;
  const bool alone = in_parallel_region() || p.work() < kParallelWork;
  const int64_t threads = alone ? 1 : get_num_threads();
  const int64_t rows = std::min(round_up(kSumsTransposed / p.m, block.panel_height),
                                round_up(ceil_div(p.n, threads), block.panel_height));
  InterruptibleParts parts(p.work() >= kInterruptibleWork);
  parallel_for(ceil_div(p.n, rows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin * rows; row < std::min(end * rows, p.n); row += rows) {
      const auto part = [&] {
        const int64_t count = std::min(rows, p.n - row);
        C* const sums = GemmScratch::of_this_thread().get<C>(Purpose::cell_sums, count * p.m);
        const MatrixView<T> out = {flipped.out.at(row, 0), 1, p.out.row_stride};
        if (p.beta != C{0})
          kernels<T>().skinny.gather({out.data, 1, p.out.row_stride}, count, p.m, sums);
        multiply_part<T>(flipped, packed, {row, row + count}, packed.cols,
                         {sums - row * p.m, p.m, p.alpha, p.beta});
        block.finish(count, p.m, sums, out, C{1}, C{0});
      };
      if (!parts.run(part)) return;
    }
  });
}

template <class T>
void multiply(Product<T> p) {
  using C = gemm_compute_t<T>;
  if (p.k == 0 || p.alpha == C{0}) {
    scale_out(p);
    return;
  }
  const Product<T> flipped = transposed(p);
  if (is_skinny(p) && (p.m <= p.n || !is_skinny(flipped))) {
    multiply_skinny(p);
    return;
  }
  if (is_skinny(flipped)) {
    multiply_skinny(flipped);
    return;
  }
  if (p.out.col_stride != 1 && p.out.row_stride == 1) p = flipped;
  if (multiplies_transposed(p)) return multiply_transposed(p);
  if constexpr (std::is_floating_point_v<T>)
    if (multiply_by_library(p)) return;
  if (const int64_t slices = slices_of_k(p); slices > 1) {
    multiply_slices(p, slices);
  } else if (stored_as_computed<T>() && p.out.col_stride == 1) {
    multiply_blocks(p, {.data = reinterpret_cast<C*>(p.out.data),
                        .row_stride = p.out.row_stride,
                        .alpha = p.alpha,
                        .beta = p.beta});
  } else {
    multiply_blocks(p, {});
  }
}

/// Turns a batch into one tall or one wide matrix where an operand is shared and the strides allow.
template <class T>
Gemm<T> folded(Gemm<T> g) {
  if (g.batch <= 1) return g;
  if (g.b.batch_stride == 0 && g.a.batch_stride == g.m * g.a.row_stride &&
      g.out.batch_stride == g.m * g.out.row_stride) {
    g.m *= g.batch;
    g.batch = 1;
  } else if (g.a.batch_stride == 0 && g.b.batch_stride == g.n * g.b.col_stride &&
             g.out.batch_stride == g.n * g.out.col_stride) {
    g.n *= g.batch;
    g.batch = 1;
  }
  return g;
}

template <class C>
C factor(double value, [[maybe_unused]] const char* what) {
  if constexpr (std::is_floating_point_v<C>) {
    return static_cast<C>(value);
  } else {
    check(value == std::trunc(value) && std::abs(value) < 0x1p63,
          "gemm: expected a whole number as ", what, " of an integer product, got ", value);
    return static_cast<C>(static_cast<int64_t>(value));
  }
}

}  // namespace

template <class T>
void gemm(const Gemm<T>& args) {
  using C = gemm_compute_t<T>;
  check(args.batch >= 0 && args.m >= 0 && args.n >= 0 && args.k >= 0,
        "gemm: sizes must not be negative, got batch ", args.batch, ", m ", args.m, ", n ", args.n,
        ", k ", args.k);
  if (args.batch == 0 || args.m == 0 || args.n == 0) return;
  allowed_gemm_libraries();  // an invalid setting is reported before anything is multiplied
  const Gemm<T> g = folded(args);
  const C alpha = factor<C>(g.alpha, "alpha");
  const C beta = factor<C>(g.beta, "beta");
  const int64_t threads = is_deterministic() ? kDeterministicThreads : get_num_threads();
  const int64_t work = std::max<int64_t>(1, g.m * g.n * g.k);
  const bool by_batch = g.batch >= 4 * threads || (g.batch > 1 && work < kSharedPackWork);
  const auto one = [&](int64_t index) {
    const auto view = [&]<class U>(const MatrixBatch<U>& x) {
      return MatrixView<U>{x.data + index * x.batch_stride, x.row_stride, x.col_stride};
    };
    multiply(Product<T>{.m = g.m,
                        .n = g.n,
                        .k = g.k,
                        .a = view(g.a),
                        .b = view(g.b),
                        .out = view(g.out),
                        .alpha = alpha,
                        .beta = beta,
                        .library_pieces = by_batch ? 1 : threads});
  };
  const int64_t grain = by_batch ? ceil_div(kParallelWork, work) : g.batch;
  InterruptibleParts parts(g.batch * work >= kInterruptibleWork);
  parallel_for(g.batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index)
      if (!parts.run([&] { one(index); })) return;
  });
}

PackedOperand::PackedOperand(MatrixView<const float> b, int64_t k, int64_t n)
    : k_(k),
      n_(n),
      panels_(kernels<float>().block.panels(n)),
      panel_width_(kernels<float>().block.panel_width),
      data_(k * round_up(n, kernels<float>().block.vector_width)) {
  const Product<float> product = {.n = n, .k = k, .b = b};
  parallel_for(panels_, ceil_div(kStreamedElements, k * panel_width_ + 1), [&](auto from, auto to) {
    pack_columns<float>(product, {.cols = {0, n}, .depths = {0, k}}, {column(from), column(to)},
                        data_.data());
  });
}

void PackedOperand::multiply(MatrixView<const float> a, int64_t m, int64_t begin, int64_t end,
                             float* out, int64_t out_row_stride) const {
  multiply_part<float>({.k = k_, .a = a}, {data_.data(), {0, n_}, {0, k_}}, {0, m},
                       {column(begin), column(end)}, {out - column(begin), out_row_stride});
}

const BlockKernels<BFloat16>* native_bfloat16_kernels() {
  return multiplies_bf16() ? &kernels<BFloat16>().block : nullptr;
}

template void gemm(const Gemm<float>&);
template void gemm(const Gemm<double>&);
template void gemm(const Gemm<Half>&);
template void gemm(const Gemm<BFloat16>&);
template void gemm(const Gemm<int64_t>&);
template void gemm(const Gemm<int32_t>&);
template void gemm(const Gemm<int16_t>&);
template void gemm(const Gemm<int8_t>&);
template void gemm(const Gemm<uint8_t>&);

}  // namespace tensora::cpu
