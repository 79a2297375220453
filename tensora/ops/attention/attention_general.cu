#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_elements.cuh"

// Note [Attention, one tile for four products]
// Forward and backward are products W X, where W is never stored: a tile of it is computed from
// rows of A against columns of B, and multiplied with rows of X.
//   forward  rows are queries  W = softmax(Q K^T), online  X = V
//   dQ       rows are queries  W = dS                      X = K
//   dK       rows are keys     W = dS^T                    X = Q
//   dV       rows are keys     W = P^T, with its dropout   X = g
// dS needs a second product, of g and V. 256 threads have a tile of 64 rows; thread (x, y) holds
// rows 4 y … 4 y + 3 and every 16th column from x on. Each block has its own rows of the result and
// walks over all columns in order: no atomic additions, and the same bits every time. A block
// computes 128 columns of the result; wider heads compute W once for each 128.

namespace tensora::cuda {
namespace {

enum class Product { forward, grad_query, grad_key, grad_value };

constexpr int kRows = 64, kSide = 16, kBlock = kSide * kSide, kWidth = 128;
template <class C>
constexpr int kCols = sizeof(C) == 8 ? 32 : 64;  // of a tile of W
template <class C>
constexpr int kDepth = sizeof(C) == 8 ? 16 : 32;  // of the slices that are multiplied

/// Some rows of one head of an array.
struct Rows {
  const char* data;
  int64_t first, row_stride, col_stride;  // in elements
  int count, width;
  Element element;
};

/// A sequence, and the head whose queries it is about.
struct Place {
  int64_t batch, first_query, first_key;
  int queries, keys, head, group;
};

__device__ Place place_of(const AttentionCall& call, int64_t sequence, int head) {
  Place place;
  place.head = head;
  place.group = head / (call.heads / call.groups);
  if (call.starts_q) {
    const int q = call.starts_q[sequence * call.starts_stride_q];
    const int k = call.starts_k[sequence * call.starts_stride_k];
    place.batch = 0;
    place.first_query = q;
    place.first_key = k;
    place.queries = call.starts_q[(sequence + 1) * call.starts_stride_q] - q;
    place.keys = call.starts_k[(sequence + 1) * call.starts_stride_k] - k;
  } else {
    place.batch = sequence;
    place.first_query = place.first_key = 0;
    place.queries = static_cast<int>(call.queries);
    place.keys = static_cast<int>(call.keys);
  }
  return place;
}

__device__ Rows query_rows(const Array4& array, const Place& place, int width) {
  return {array.data,
          place.batch * array.strides[0] + place.head * array.strides[1] +
              place.first_query * array.strides[2],
          array.strides[2],
          array.strides[3],
          place.queries,
          width,
          array.element};
}
__device__ Rows key_rows(const Array4& array, const Place& place, int width) {
  return {array.data,
          place.batch * array.strides[0] + place.group * array.strides[1] +
              place.first_key * array.strides[2],
          array.strides[2],
          array.strides[3],
          place.keys,
          width,
          array.element};
}

/// count x depth elements from (row, col) on, zeros beyond the array, into to[count][pitch].
template <class C>
__device__ void stage(const Rows& from, int row, int col, int count, int depth, int pitch, C* to) {
  for (int i = static_cast<int>(threadIdx.x); i < count * depth; i += kBlock) {
    const int r = i / depth, c = i % depth;
    const bool inside = row + r < from.count && col + c < from.width;
    to[r * pitch + c] =
        inside ? load_at<C>(from.data,
                            from.first + (row + r) * from.row_stride + (col + c) * from.col_stride,
                            from.element)
               : C(0);
  }
}

template <class C>
struct Shared {
  C tile[kRows * (kCols<C> + 1)];
  union {
    struct {
      C a[kRows * (kDepth<C> + 1)], b[kCols<C> * (kDepth<C> + 1)];
    } slices;
    C x[kDepth<C> * kWidth];
  };
};

template <class C>
using Tile = C[4][kCols<C> / kSide];

/// sums = a @ b^T of a tile of rows and one of columns.
template <class C>
__device__ void multiply_rows(const Rows& a, const Rows& b, int row, int col, Shared<C>& shared,
                              Tile<C>& sums) {
  constexpr int kPitch = kDepth<C> + 1;
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < kCols<C> / kSide; ++j) sums[i][j] = 0;
  for (int k0 = 0; k0 < a.width; k0 += kDepth<C>) {
    __syncthreads();
    stage(a, row, k0, kRows, kDepth<C>, kPitch, shared.slices.a);
    stage(b, col, k0, kCols<C>, kDepth<C>, kPitch, shared.slices.b);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < kDepth<C>; ++k) {
      C left[4], right[kCols<C> / kSide];
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = shared.slices.a[(4 * y + i) * kPitch + k];
#pragma unroll
      for (int j = 0; j < kCols<C> / kSide; ++j)
        right[j] = shared.slices.b[(x + kSide * j) * kPitch + k];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < kCols<C> / kSide; ++j) sums[i][j] += left[i] * right[j];
    }
  }
}

/// sums += W @ x, for the W in shared memory and columns `first` … of x.
template <class C>
__device__ void multiply_tile(const Rows& x_rows, int col, int first, Shared<C>& shared,
                              C (&sums)[4][kWidth / kSide]) {
  constexpr int kPitch = kCols<C> + 1;
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  for (int c0 = 0; c0 < kCols<C>; c0 += kDepth<C>) {
    __syncthreads();
    stage(x_rows, col + c0, first, kDepth<C>, kWidth, kWidth, shared.x);
    __syncthreads();
#pragma unroll 4
    for (int c = 0; c < kDepth<C>; ++c) {
      C w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = shared.tile[(4 * y + i) * kPitch + c0 + c];
#pragma unroll
      for (int j = 0; j < kWidth / kSide; ++j) {
        const C value = shared.x[c * kWidth + x + kSide * j];
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i][j] += w[i] * value;
      }
    }
  }
}

template <class C>
constexpr C kInfinite = C(__builtin_huge_val());

/// The score of a pair, with everything that hides it; `dot` is the plain product.
template <class C>
__device__ C score_of(const AttentionCall& call, const Place& place, int query, int key, C dot) {
  if (query >= place.queries || key >= place.keys || (call.causal && key > query))
    return -kInfinite<C>;
  const C score = dot * C(call.scale);
  if (!call.mask.data) return score;
  const int64_t* const at = call.mask.strides;
  const C mask = load_at<C>(call.mask.data,
                            place.batch * at[0] + place.head * at[1] + query * at[2] + key * at[3],
                            call.mask.element);
  if (call.mask.element == Element::boolean) return mask != C(0) ? score : -kInfinite<C>;
  return score + mask;
}

__device__ int64_t line_of(const AttentionCall& call, const Place& place, int query) {
  return (place.batch * call.heads + place.head) * call.queries + place.first_query + query;
}

template <class C>
__device__ C dropout_factor(const AttentionCall& call, const Place& place, int query, int key) {
  return call.dropout.keeps(line_of(call, place, query) * call.dropout_cols + key)
             ? C(call.dropout.factor)
             : C(0);
}

/// The probability of a pair: 0 in rows without any key.
template <class C>
__device__ C probability_of(const AttentionCall& call, const Place& place, int query, int key,
                            C dot) {
  const C score = score_of<C>(call, place, query, key, dot);
  if (score == -kInfinite<C>) return 0;
  const C logarithm = static_cast<const C*>(call.logarithms)[line_of(call, place, query)];
  return logarithm == -kInfinite<C> ? C(0) : exp(score - logarithm);
}

/// What the online softmax knows of a thread's four rows.
template <class C>
struct Running {
  C largest[4], total[4];
};

template <class C>
__device__ C over_row(C value, bool sums) {
#pragma unroll
  for (int step = kSide / 2; step > 0; step /= 2) {
    const C other = __shfl_xor_sync(kWholeWarp, value, step, kSide);
    value = sums ? value + other : value > other ? value : other;
  }
  return value;
}

// Scores become exponentials relative to the largest of their row so far.
template <class C>
__device__ void soften(const AttentionCall& call, const Place& place, int row, int col,
                       Tile<C>& tile, Running<C>& running, C (&sums)[4][kWidth / kSide]) {
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int query = row + 4 * y + i;
    C largest = running.largest[i];
#pragma unroll
    for (int j = 0; j < kCols<C> / kSide; ++j) {
      tile[i][j] = score_of<C>(call, place, query, col + x + kSide * j, tile[i][j]);
      largest = tile[i][j] > largest ? tile[i][j] : largest;
    }
    largest = over_row(largest, false);
    const C base = largest == -kInfinite<C> ? C(0) : largest;
    C total = 0;
#pragma unroll
    for (int j = 0; j < kCols<C> / kSide; ++j) {
      tile[i][j] = exp(tile[i][j] - base);
      total += tile[i][j];
      if (call.dropout.on && tile[i][j] != C(0))
        tile[i][j] *= dropout_factor<C>(call, place, query, col + x + kSide * j);
    }
    const C shrink = exp(running.largest[i] - base);
    running.total[i] = running.total[i] * shrink + over_row(total, true);
    running.largest[i] = largest;
#pragma unroll
    for (int j = 0; j < kWidth / kSide; ++j) sums[i][j] *= shrink;
  }
}

// dS, or for dV the probabilities with their dropout, from both products.
template <class C, Product product>
__device__ void differentiate(const AttentionCall& call, const Place& place, int row, int col,
                              Tile<C>& tile, const Tile<C>& grad_p) {
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  constexpr bool turned = product == Product::grad_key || product == Product::grad_value;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < kCols<C> / kSide; ++j) {
      const int r = row + 4 * y + i, c = col + x + kSide * j;
      const int query = turned ? c : r, key = turned ? r : c;
      const C p = probability_of<C>(call, place, query, key, tile[i][j]);
      const C factor =
          call.dropout.on && p != C(0) ? dropout_factor<C>(call, place, query, key) : C(1);
      if constexpr (product == Product::grad_value) {
        tile[i][j] = p * factor;
      } else {
        const C delta =
            p != C(0) ? static_cast<const C*>(call.delta)[line_of(call, place, query)] : C(0);
        tile[i][j] = p == C(0) ? C(0) : p * (grad_p[i][j] * factor - delta);
      }
    }
}

template <class C>
__device__ void share_tile(const Tile<C>& tile, C factor, Shared<C>& shared) {
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < kCols<C> / kSide; ++j)
      shared.tile[(4 * y + i) * (kCols<C> + 1) + x + kSide * j] = tile[i][j] * factor;
}

// The rows that a thread has of the result; of the forward also their logarithms.
template <class C, Product product>
__device__ void store_product(const AttentionCall& call, const Array4& out, const Place& place,
                              int owner, int row, int first, const Running<C>& running,
                              const C (&sums)[4][kWidth / kSide]) {
  constexpr bool turned = product == Product::grad_key || product == Product::grad_value;
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const int count = turned ? place.keys : place.queries;
  const int width = product == Product::forward || product == Product::grad_value ? call.value_size
                                                                                  : call.head_size;
  const int64_t start = place.batch * out.strides[0] + owner * out.strides[1] +
                        (turned ? place.first_key : place.first_query) * out.strides[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int r = row + 4 * y + i;
    if (r >= count) break;
    C factor = 1;
    if constexpr (product == Product::forward) {
      const C total = running.total[i];
      factor = total == C(0) ? C(0) : C(1) / total;
      if (x == 0 && first == 0)
        static_cast<C*>(call.logarithms)[line_of(call, place, r)] =
            total == C(0) ? -kInfinite<C> : running.largest[i] + log(total);
    }
#pragma unroll
    for (int j = 0; j < kWidth / kSide; ++j) {
      const int c = first + x + kSide * j;
      if (c < width)
        store_at<C>(out.data, start + r * out.strides[2] + c * out.strides[3], out.element,
                    sums[i][j] * factor);
    }
  }
}

/// One block's part: `tiles` of rows, and `chunks` of 128 columns of the result.
template <class C, Product product>
__global__ void __launch_bounds__(kBlock)
    attention_product(const AttentionCall call, const Array4 out, int tiles, int chunks) {
  constexpr bool turned = product == Product::grad_key || product == Product::grad_value;
  constexpr bool second = product == Product::grad_query || product == Product::grad_key;
  __shared__ Shared<C> shared;
  int64_t number = blockIdx.x;
  const int first = static_cast<int>(number % chunks) * kWidth;
  const int row = static_cast<int>(number / chunks % tiles) * kRows;
  number = number / chunks / tiles;
  const int owners = turned ? call.groups : call.heads, per_group = call.heads / call.groups;
  const int owner = static_cast<int>(number % owners);
  Place place = place_of(call, number / owners, turned ? owner * per_group : owner);
  if (row >= (turned ? place.keys : place.queries)) return;
  C sums[4][kWidth / kSide] = {};
  Running<C> running;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    running.largest[i] = -kInfinite<C>;
    running.total[i] = 0;
  }
  for (int h = 0; h < (turned ? per_group : 1); ++h) {
    if (turned) place.head = owner * per_group + h;
    const Rows queries = query_rows(call.query, place, call.head_size);
    const Rows keys = key_rows(call.key, place, call.head_size);
    const Rows values = key_rows(call.value, place, call.value_size);
    const Rows grads = query_rows(call.grad, place, call.value_size);
    const int begin = turned && call.causal ? row / kCols<C> * kCols<C> : 0;
    const int whole = turned ? place.queries : place.keys;
    const int end = !turned && call.causal ? min(whole, row + kRows) : whole;
    for (int col = begin; col < end; col += kCols<C>) {
      Tile<C> tile, grad_p;
      multiply_rows(turned ? keys : queries, turned ? queries : keys, row, col, shared, tile);
      if constexpr (second)
        multiply_rows(turned ? values : grads, turned ? grads : values, row, col, shared, grad_p);
      if constexpr (product == Product::forward)
        soften(call, place, row, col, tile, running, sums);
      else
        differentiate<C, product>(call, place, row, col, tile, grad_p);
      share_tile(tile, second ? C(call.scale) : C(1), shared);
      const Rows& rows_of_x = product == Product::forward      ? values
                              : product == Product::grad_query ? keys
                              : product == Product::grad_key   ? queries
                                                               : grads;
      multiply_tile(rows_of_x, col, first, shared, sums);
    }
  }
  store_product<C, product>(call, out, place, owner, row, first, running, sums);
}

// A block owns a tile of the mask's gradient and walks over all that this part was added to.
template <class C>
__global__ void __launch_bounds__(kBlock)
    mask_gradient(const AttentionCall call, int row_tiles, int col_tiles) {
  __shared__ Shared<C> shared;
  const int64_t* const sizes = call.mask_sizes;
  const bool one_row = sizes[2] == 1, one_col = sizes[3] == 1;
  int64_t number = blockIdx.x;
  const int first_col = static_cast<int>(number % col_tiles) * kCols<C>;
  const int first_row = static_cast<int>(number / col_tiles % row_tiles) * kRows;
  number = number / col_tiles / row_tiles;
  const int64_t mask_head = number % sizes[1], mask_batch = number / sizes[1];
  const int64_t batch_end = sizes[0] == 1 ? call.sequences : mask_batch + 1;
  const int head_end = static_cast<int>(sizes[1] == 1 ? call.heads : mask_head + 1);
  const int row_end = one_row ? static_cast<int>(call.queries) : first_row + 1;
  const int col_end = one_col ? static_cast<int>(call.keys) : first_col + 1;
  Tile<C> sums = {};
  for (int64_t b = sizes[0] == 1 ? 0 : mask_batch; b < batch_end; ++b)
    for (int h = static_cast<int>(sizes[1] == 1 ? 0 : mask_head); h < head_end; ++h) {
      const Place place = place_of(call, b, h);
      const Rows queries = query_rows(call.query, place, call.head_size);
      const Rows grads = query_rows(call.grad, place, call.value_size);
      const Rows keys = key_rows(call.key, place, call.head_size);
      const Rows values = key_rows(call.value, place, call.value_size);
      for (int row = first_row; row < row_end; row += kRows)
        for (int col = first_col; col < col_end; col += kCols<C>) {
          Tile<C> tile, grad_p;
          multiply_rows(queries, keys, row, col, shared, tile);
          multiply_rows(grads, values, row, col, shared, grad_p);
          differentiate<C, Product::grad_query>(call, place, row, col, tile, grad_p);
          for (int i = 0; i < 4; ++i)
            for (int j = 0; j < kCols<C> / kSide; ++j) sums[i][j] += tile[i][j];
        }
    }
  share_tile(sums, C(1), shared);
  __syncthreads();
  const Array4& out = call.grad_mask;
  const int rows = one_row ? 1 : kRows, cols = one_col ? 1 : kCols<C>;
  for (int i = static_cast<int>(threadIdx.x); i < rows * cols; i += kBlock) {
    const int r = i / cols, c = i % cols;
    if (first_row + r >= sizes[2] || first_col + c >= sizes[3]) continue;
    C sum = 0;
    for (int ri = r; ri < (one_row ? kRows : r + 1); ++ri)
      for (int ci = c; ci < (one_col ? kCols<C> : c + 1); ++ci)
        sum += shared.tile[ri * (kCols<C> + 1) + ci];
    store_at<C>(out.data,
                mask_batch * out.strides[0] + mask_head * out.strides[1] +
                    (first_row + r) * out.strides[2] + (first_col + c) * out.strides[3],
                out.element, sum);
  }
}

int64_t tiles_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

template <class C, Product product>
void launch(std::string_view op, int device, const AttentionCall& call, const Array4& out) {
  constexpr bool turned = product == Product::grad_key || product == Product::grad_value;
  const int64_t tiles = tiles_of(turned ? call.keys : call.queries, kRows);
  const int width = product == Product::forward || product == Product::grad_value ? call.value_size
                                                                                  : call.head_size;
  // A forward without values still has logarithms to write.
  const int64_t chunks = product == Product::forward ? std::max<int64_t>(tiles_of(width, kWidth), 1)
                                                     : tiles_of(width, kWidth);
  const int64_t blocks = call.sequences * (turned ? call.groups : call.heads) * tiles * chunks;
  Launch{op, device}(attention_product<C, product>, dim3(grid_of(op, blocks)), dim3(kBlock), call,
                     out, static_cast<int>(tiles), static_cast<int>(chunks));
}

}  // namespace

void general_forward(std::string_view op, int device, const AttentionCall& call) {
  with_compute_type(call,
                    [&]<class C>() { launch<C, Product::forward>(op, device, call, call.result); });
}

void general_backward(std::string_view op, int device, const AttentionCall& call) {
  with_compute_type(call, [&]<class C>() {
    launch<C, Product::grad_query>(op, device, call, call.grad_query);
    launch<C, Product::grad_key>(op, device, call, call.grad_key);
    launch<C, Product::grad_value>(op, device, call, call.grad_value);
  });
}

void attention_mask_gradient(std::string_view op, int device, const AttentionCall& call) {
  const int64_t* const sizes = call.mask_sizes;
  with_compute_type(call, [&]<class C>() {
    const int64_t rows = tiles_of(sizes[2], kRows), cols = tiles_of(sizes[3], kCols<C>);
    Launch{op, device}(mask_gradient<C>, dim3(grid_of(op, sizes[0] * sizes[1] * rows * cols)),
                       dim3(kBlock), call, static_cast<int>(rows), static_cast<int>(cols));
  });
}

}  // namespace tensora::cuda
