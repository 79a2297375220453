#pragma once

// Internal header
// What forward and backward on the CPU share: the operands as tiles, the products of tiles by
// gemm's kernels, masks, dropout, and the exponential.
//
// Note [What attention multiplies]
// Scores and sums are of the compute type C, float or double. What the products multiply is of type
// T: C as well, or bfloat16 where the operands are and the processor multiplies it. Operands are
// then read as they are, and probabilities and gradients of scores are rounded before a product.

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "tensora/backend/cpu/convert.h"
#include "tensora/backend/cpu/exponential.h"
#include "tensora/backend/cpu/gemm_kernels.h"
#include "tensora/backend/cpu/scratch.h"
#include "tensora/base/math.h"
#include "tensora/base/thread_pool.h"
#include "tensora/ops/attention/attention_problem.h"

namespace tensora::cpu::TENSORA_ISA {

template <class C>
inline constexpr C kInfinite = std::numeric_limits<C>::infinity();

inline constexpr int64_t kQueryBlock = 96;  // a multiple of the heights of all register tiles
inline constexpr int64_t kKeyBlock = 192;   // and of the widths; products over keys fit one k block

inline int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

/// One operand: heads of matrices, converted to the compute type as they are loaded.
struct Operand {
  const char* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0, col_stride = 0;  // in elements
  int64_t cols = 0, bytes = 0;                                                // bytes per element
  DType dtype = DType::float32;
  LoadFn load = nullptr;

  template <class C>
  static Operand of(const View& view /* B H N D */) {
    return {view.as<const char>(),
            view.strides[0],
            view.strides[1],
            view.strides[2],
            view.strides[3],
            view.sizes[3],
            static_cast<int64_t>(element_size(view.dtype)),
            view.dtype,
            load_fn<C>(view.dtype)};
  }
  const char* at(int64_t batch, int64_t head, int64_t row) const {
    return data + (batch * batch_stride + head * head_stride + row * row_stride) * bytes;
  }
  /// Rows from `row` on into to[count][width], zeros behind the columns.
  template <class T>
  void load_rows(int64_t batch, int64_t head, int64_t row, int64_t count, int64_t width,
                 T* to) const {
    const LoadFn load_row = std::is_same_v<T, BFloat16> ? load_tile<BFloat16, BFloat16> : load;
    for (int64_t i = 0; i < count; ++i) {
      load_row(at(batch, head, row + i), col_stride, cols, to + i * width);
      std::fill(to + i * width + cols, to + (i + 1) * width, T(0));
    }
  }
  /// The same rows in place where they are numbers of T side by side, else loaded to `memory`.
  template <class T>
  MatrixView<const T> rows(int64_t batch, int64_t head, int64_t row, int64_t count, int64_t width,
                           T* memory) const {
    if (dtype == dtype_of<T> && col_stride == 1 && cols == width)
      return {reinterpret_cast<const T*>(at(batch, head, row)), row_stride, 1};
    load_rows(batch, head, row, count, width, memory);
    return {memory, width, 1};
  }
};

/// A tensor to write.
struct Target {
  char* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0, col_stride = 0;
  int64_t cols = 0, bytes = 0;
  StoreFn store = nullptr;

  template <class C>
  static Target of(const View& view) {
    return {view.as<char>(),
            view.strides[0],
            view.strides[1],
            view.strides[2],
            view.strides[3],
            view.sizes[3],
            static_cast<int64_t>(element_size(view.dtype)),
            store_fn<C>(view.dtype)};
  }
  template <class C>
  void store_rows(int64_t batch, int64_t head, int64_t row, int64_t count, int64_t width,
                  const C* from) const {
    for (int64_t i = 0; i < count; ++i)
      store(from + i * width,
            data + (batch * batch_stride + head * head_stride + (row + i) * row_stride) * bytes,
            col_stride, cols);
  }
};

/// Where the queries and keys of a sequence lie, and how many they are.
struct Sequence {
  int64_t batch = 0, first_query = 0, queries = 0, first_key = 0, keys = 0;
};

/// The mask that is added to the scores; null data: none.
struct Mask {
  const char* data = nullptr;
  int64_t strides[4] = {};  // 0 along dims that broadcast
  int64_t bytes = 0;
  bool is_bool = false;
  LoadFn load = nullptr;
};

/// Everything about a call that does not depend on the tile.
template <class C>
struct Problem {
  Operand query = {}, key = {}, value = {};
  Mask mask = {};
  AttentionDropout dropout = {};
  std::vector<Sequence> sequences = {};
  int64_t heads = 0, groups = 0, rows = 0;  // rows: the queries of a batch
  int64_t dropout_cols = 0;                 // S in Note [Dropout of a matrix never stored]
  C scale = 1;
  bool causal = false;

  int64_t group_of(int64_t head) const { return head / (heads / groups); }
  int64_t heads_per_group() const { return groups == 0 ? 0 : heads / groups; }
};

std::vector<Sequence> sequences_of(std::string_view op, const View& query, const View& key,
                                   const View* lengths_q, const View* lengths_k, int64_t most_keys);

template <class C>
Problem<C> problem_of(const KernelContext& context, size_t first, const View* mask,
                      const View* lengths_q, const View* lengths_k, const AttentionAttrs& attrs) {
  const View &q = context.input(first), &k = context.input(first + 1),
             &v = context.input(first + 2);
  Problem<C> problem{
      .query = Operand::of<C>(q),
      .key = Operand::of<C>(k),
      .value = Operand::of<C>(v),
      .dropout = dropout_of(attrs),
      .sequences = sequences_of(context.op, q, k, lengths_q, lengths_k, attrs.max_seqlen_k),
      .heads = q.sizes[1],
      .groups = k.sizes[1],
      .rows = q.sizes[2],
      .dropout_cols = lengths_q ? attrs.max_seqlen_k : k.sizes[2],
      .scale = static_cast<C>(scale_of(attrs, q.sizes[3])),
      .causal = attrs.is_causal};
  if (mask) {
    problem.mask = {.data = mask->as<const char>(),
                    .bytes = static_cast<int64_t>(element_size(mask->dtype)),
                    .is_bool = mask->dtype == DType::boolean,
                    .load = load_fn<C>(mask->dtype)};
    for (int d = 0; d < 4; ++d)
      problem.mask.strides[d] = mask->sizes[d] == 1 ? 0 : mask->strides[d];
  }
  return problem;
}

// ---- products of tiles -------------------------------------------------------------------------

template <class T>
const BlockKernels<T>& tile_kernels() {
  if constexpr (std::is_same_v<T, BFloat16>)
    return *native_bfloat16_kernels();
  else
    return block_kernels<T>();
}

/// Whether T is bfloat16, see Note [What attention multiplies].
inline bool multiplies_bfloat16(DType dtype) {
  return dtype == DType::bfloat16 && native_bfloat16_kernels() != nullptr;
}

template <class T>
int64_t padded_width(int64_t n) {
  const int64_t lanes = tile_kernels<T>().vector_width;
  return (n + lanes - 1) / lanes * lanes;
}

/// b[k, n] as gemm's panels, k in blocks: k * padded_width(n) numbers.
template <class T>
void pack(MatrixView<const T> b, int64_t k, int64_t n, gemm_compute_t<T>* packed) {
  const BlockKernels<T>& kernels = tile_kernels<T>();
  for (int64_t begin = 0; begin < k; begin += kernels.k_block)
    kernels.pack_b({b.at(begin, 0), b.row_stride, b.col_stride},
                   std::min(kernels.k_block, k - begin), n, packed + begin * padded_width<T>(n));
}

/// A matrix b[k, n] as `pack` wrote it.
template <class T>
struct PackedMatrix {
  const gemm_compute_t<T>* data = nullptr;
  int64_t k = 0, n = 0;

  /// As many of the first columns as can be multiplied alone and include the first `wanted`.
  int64_t columns(int64_t wanted) const {
    const BlockKernels<T>& kernels = tile_kernels<T>();
    const int64_t panels = blocks_of(wanted, kernels.panel_width);
    return panels < kernels.panels(n) ? panels * kernels.panel_width : n;
  }
  /// Whether a product may end at any row: the panels are alike, and one k block holds them.
  bool is_divisible() const {
    const BlockKernels<T>& kernels = tile_kernels<T>();
    return k <= kernels.k_block && n % kernels.panel_width == 0;
  }
};

/// out[m, n] (rows `out_stride` apart) = alpha * a @ b + beta * out for the first n columns of b.
template <class T, class C = gemm_compute_t<T>>
void multiply_packed(int64_t m, int64_t n, MatrixView<const T> a, const PackedMatrix<T>& b, C* out,
                     int64_t out_stride, std::type_identity_t<C> alpha,
                     std::type_identity_t<C> beta, C* scratch) {
  const BlockKernels<T>& kernels = tile_kernels<T>();
  for (int64_t begin = 0; begin < b.k || begin == 0; begin += kernels.k_block)
    kernels.multiply({.m = m,
                      .n = n,
                      .k = std::min(kernels.k_block, b.k - begin),
                      .a = {a.at(0, begin), a.row_stride, a.col_stride},
                      .b_packed = b.data + begin * padded_width<T>(b.n),
                      .out = out,
                      .out_row_stride = out_stride,
                      .alpha = alpha,
                      .beta = begin == 0 ? beta : C(1),
                      .scratch = scratch});
}

/// out[m, n] (without gaps) += alpha * a @ b, where a has zeros from column `k` on.
template <class T, class C = gemm_compute_t<T>>
void add_packed(int64_t m, int64_t k, MatrixView<const T> a, const PackedMatrix<T>& b, C* out,
                std::type_identity_t<C> alpha, C* scratch) {
  if (k == b.k || !b.is_divisible())
    return multiply_packed<T>(m, b.n, a, b, out, b.n, alpha, 1, scratch);
  const BlockKernels<T>& kernels = tile_kernels<T>();
  for (int64_t col = 0; col < b.n; col += kernels.panel_width)
    kernels.multiply({.m = m,
                      .n = kernels.panel_width,
                      .k = k,
                      .a = a,
                      .b_packed = b.data + col * b.k,
                      .out = out + col,
                      .out_row_stride = b.n,
                      .alpha = alpha,
                      .beta = 1,
                      .scratch = scratch});
}

/// out[m, n] (without gaps) += alpha * a @ b, where n is a whole number of vectors and k fits one
/// block; b is packed to `packed` unless it can be read in place.
template <class T, class C = gemm_compute_t<T>>
void add_product(int64_t m, int64_t n, int64_t k, MatrixView<const T> a, MatrixView<const T> b,
                 C* out, std::type_identity_t<C> alpha, C* packed, C* scratch) {
  BlockProduct<T> product{.m = m,
                          .n = n,
                          .k = k,
                          .a = a,
                          .out = out,
                          .out_row_stride = n,
                          .alpha = alpha,
                          .beta = 1,
                          .scratch = scratch};
  if constexpr (std::is_same_v<T, C>) {
    product.b = b;
  } else {
    pack<T>(b, k, n, packed);
    product.b_packed = packed;
  }
  tile_kernels<T>().multiply(product);
}

// ---- rows of scores ----------------------------------------------------------------------------

/// Sets dropout factors for n elements of the random stream from `first` on.
template <class C>
void dropout_row(const AttentionDropout& dropout, int64_t first, int64_t n, C* factors) {
  const C factor = static_cast<C>(dropout.factor);
  constexpr int64_t kBlock = 4 * kPhiloxLanes;
  for (int64_t at = first; at < first + n;) {
    const int64_t block = at / kBlock, end = std::min((block + 1) * kBlock, first + n);
    unsigned words[kBlock];
#pragma omp simd
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      const PhiloxWords four =
          philox(dropout.seed, dropout.offset + static_cast<uint64_t>(block * kPhiloxLanes + lane));
      for (int k = 0; k < 4; ++k) words[k * kPhiloxLanes + lane] = four.word[k];
    }
    for (; at < end; ++at)
      factors[at - first] =
          dropout.keeps_any && words[at - block * kBlock] <= dropout.last ? factor : C(0);
  }
}

/// Rounds n numbers to bfloat16, those in the middle away from 0, by fewer instructions than
/// BFloat16(float) takes: a NaN stays one only if its fraction has a 0, as that of an operation
/// has.
inline void round_numbers(const float* from, int64_t n, BFloat16* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    to[i].bits =
        static_cast<unsigned short>((__builtin_bit_cast(unsigned, from[i]) + 0x8000u) >> 16);
}

/// A tile of scores: queries `query` … of one head against keys `key` …, counted in the sequence.
struct TilePlace {
  const Sequence* sequence = nullptr;
  int64_t head = 0, query = 0, key = 0, rows = 0, cols = 0;
};

/// How many keys of the tile a causal row sees.
inline int64_t visible_keys(bool causal, const TilePlace& tile, int64_t row) {
  if (!causal) return tile.cols;
  return std::clamp<int64_t>(tile.query + row - tile.key + 1, 0, tile.cols);
}

/// Adds the mask to one row of scores.
template <class C>
void mask_row(const Mask& mask, const TilePlace& tile, int64_t row, C* scores) {
  const char* from =
      mask.data + (tile.sequence->batch * mask.strides[0] + tile.head * mask.strides[1] +
                   (tile.query + row) * mask.strides[2] + tile.key * mask.strides[3]) *
                      mask.bytes;
  C values[kKeyBlock];
  mask.load(from, mask.strides[3], tile.cols, values);
  if (mask.is_bool) {
#pragma omp simd
    for (int64_t j = 0; j < tile.cols; ++j)
      scores[j] = values[j] != C(0) ? scores[j] : -kInfinite<C>;
  } else {
#pragma omp simd
    for (int64_t j = 0; j < tile.cols; ++j) scores[j] += values[j];
  }
}

template <class C>
int64_t dropout_element(const Problem<C>& problem, const TilePlace& tile, int64_t row) {
  const Sequence& sequence = *tile.sequence;
  const int64_t line = (sequence.batch * problem.heads + tile.head) * problem.rows +
                       sequence.first_query + tile.query + row;
  return line * problem.dropout_cols + tile.key;
}

}  // namespace tensora::cpu::TENSORA_ISA
