#include "tensora/backend/cuda/loops/copy.h"

#include "tensora/backend/cuda/loops/launch_walk.cuh"
#include "tensora/backend/cuda/loops/pointwise.cuh"
#include "tensora/backend/cuda/runtime/checked.h"
#include "tensora/backend/cuda/runtime/runtime.h"

namespace tensora::cuda {
namespace {

struct Identity : functors::Unary {
  static constexpr bool complex = true;
  template <class V>
  constexpr V forward(V self) const {
    return self;
  }
};

// Every source value is exact in its own compute type, so the only rounding is the store's; or, as
// a real number becomes complex, the load's.
void copy_by_elements(std::string_view op, const View& from, const View& to, DType compute) {
  static const FunctorKernels kernels = functor_kernels<Identity>();
  const Identity identity;
  const View* const in[] = {&from};
  const View* const out[] = {&to};
  run_pointwise({op, in, out, to.device, compute}, kernels, 1, &identity);
}

// Note [Transposed copies on the GPU]
// Of two arrays that are contiguous along different dims only one can be traversed in memory order;
// the other would touch a memory sector per element. So a tile is read along the source's dim and
// written along the target's:
//   turn_kernel   where sizes and strides allow wide accesses: a thread reads a square of W x W
//                 elements in W accesses, transposes it in its registers and writes it in W
//                 accesses. A warp's threads form a tile whose rows are whole sectors on both
//                 sides.
//   tile_kernel   anywhere else: a block reads a tile into shared memory, element by element. One
//                 column of padding keeps the threads of a warp, which read down a column, in
//                 different banks.
struct TransposeParams {
  const char* from;
  char* to;
  unsigned size_x, size_y;              // x: the source's inner dim, y: the target's
  unsigned from_stride_y, to_stride_x;  // in bytes
  Divisor tiles_x, tiles_y;
  Walk<2> rest;  // the other dims: array 0 the target, 1 the source
};

/// Where a block's tile begins.
struct Corner {
  unsigned x, y;
  const char* from;
  char* to;
};

__device__ inline Corner corner_of(const TransposeParams& params, unsigned tile_x,
                                   unsigned tile_y) {
  // Adjacent blocks write adjacent parts of the same rows.
  const unsigned above = params.tiles_y.divide(blockIdx.x);
  const unsigned batch = params.tiles_x.divide(above);
  int at[2];
  params.rest.offsets(batch, at);
  return {(above - batch * params.tiles_x.divisor) * tile_x,
          (blockIdx.x - above * params.tiles_y.divisor) * tile_y, params.from + at[1],
          params.to + at[0]};
}

/// Elements on a side of a thread's square, for elements of that many bytes.
template <int bytes>
inline constexpr unsigned kSquare = bytes == 1 ? 8 : 16 / bytes;
// How a block's threads are arranged over its tile, in squares.
constexpr unsigned kLanesX = 8, kLanesY = 4, kWarpsX = 2, kWarpsY = 4;
template <int bytes>
inline constexpr unsigned kTurnX = kSquare<bytes> * kLanesX * kWarpsX;
template <int bytes>
inline constexpr unsigned kTurnY = kSquare<bytes> * kLanesY * kWarpsY;

/// Column j of a square whose rows are given.
template <int bytes>
__device__ inline RawGroup column_of(const RawGroup (&rows)[kSquare<bytes>], unsigned j) {
  RawGroup column;
  if constexpr (bytes == 8) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) column.words[i] = rows[i / 2].words[2 * j + i % 2];
  } else if constexpr (bytes == 4) {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) column.words[i] = rows[i].words[j];
  } else if constexpr (bytes == 2) {
    const unsigned selector = j % 2 == 0 ? 0x5410 : 0x7632;  // the low or the high halves of two
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      column.words[i] =
          __byte_perm(rows[2 * i].words[j / 2], rows[2 * i + 1].words[j / 2], selector);
  } else {
    const unsigned selector = j % 4 | (j % 4 + 4) << 4;  // byte j of two words
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const auto pair = [&](unsigned row) {
        return __byte_perm(rows[row].words[j / 4], rows[row + 1].words[j / 4], selector);
      };
      column.words[i] = __byte_perm(pair(4 * i), pair(4 * i + 2), 0x5410);
    }
  }
  return column;
}

/// The counterpart of fetch().
template <int bytes>
__device__ inline void store(char* to, const RawGroup& from) {
  Pack<unsigned, bytes / 4> pack;
#pragma unroll
  for (int i = 0; i < bytes / 4; ++i) pack.items[i] = from.words[i];
  *reinterpret_cast<Pack<unsigned, bytes / 4>*>(to) = pack;
}

template <int bytes>
__global__ void __launch_bounds__(kThreads)
    turn_kernel(const __grid_constant__ TransposeParams params) {
  constexpr unsigned W = kSquare<bytes>;
  const Corner corner = corner_of(params, kTurnX<bytes>, kTurnY<bytes>);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned x = corner.x + (warp % kWarpsX * kLanesX + lane % kLanesX) * W;
  const unsigned y = corner.y + (warp / kWarpsX * kLanesY + lane / kLanesX) * W;
  if (x >= params.size_x || y >= params.size_y) return;
  RawGroup rows[W];
#pragma unroll
  for (unsigned i = 0; i < W; ++i)
    fetch<W * bytes>(corner.from + (y + i) * params.from_stride_y + x * bytes, rows[i]);
#pragma unroll
  for (unsigned j = 0; j < W; ++j)
    store<W * bytes>(corner.to + (x + j) * params.to_stride_x + y * bytes,
                     column_of<bytes>(rows, j));
}

template <class T>
inline constexpr unsigned kTile = sizeof(T) <= 2 ? 64 : 32;
constexpr unsigned kTileThreadsX = 32, kTileThreadsY = 8;

template <class T>
__global__ void __launch_bounds__(kTileThreadsX* kTileThreadsY)
    tile_kernel(const __grid_constant__ TransposeParams params) {
  __shared__ T tile[kTile<T>][kTile<T> + 1];
  const Corner corner = corner_of(params, kTile<T>, kTile<T>);
  for (unsigned y = threadIdx.y; y < kTile<T> && corner.y + y < params.size_y; y += kTileThreadsY)
    for (unsigned x = threadIdx.x; x < kTile<T> && corner.x + x < params.size_x; x += kTileThreadsX)
      tile[y][x] = *reinterpret_cast<const T*>(corner.from + (corner.y + y) * params.from_stride_y +
                                               (corner.x + x) * sizeof(T));
  __syncthreads();
  for (unsigned x = threadIdx.y; x < kTile<T> && corner.x + x < params.size_x; x += kTileThreadsY)
    for (unsigned y = threadIdx.x; y < kTile<T> && corner.y + y < params.size_y; y += kTileThreadsX)
      *reinterpret_cast<T*>(corner.to + (corner.x + x) * params.to_stride_x +
                            (corner.y + y) * sizeof(T)) = tile[y][x];
}

// Note [Reversed copies on the GPU]
// A flipped tensor is the tensor read from its other end. Where it is flipped along the dim that is
// contiguous in memory, a thread reads the 16 bytes that become its group, and reverses them in its
// registers.
struct ReverseParams {
  Walk<2> walk;  // to, from; in groups
  char* to;
  const char* from;
  unsigned count;
};

template <int bytes>
__global__ void __launch_bounds__(kThreads)
    reverse_kernel(const __grid_constant__ ReverseParams params) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= params.count) return;
  int at[2];
  params.walk.offsets(i, at);
  RawGroup group, reversed;
  fetch<16>(params.from + at[1] - (16 - bytes), group);
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const unsigned word = group.words[bytes == 8 ? w ^ 2 : 3 - w];
    reversed.words[w] = bytes == 1   ? __byte_perm(word, 0, 0x0123)
                        : bytes == 2 ? __byte_perm(word, 0, 0x1032)
                                     : word;
  }
  store<16>(params.to + at[0], reversed);
}

bool copy_reversed(std::string_view op, const View& from, const View& to) {
  const View* const views[] = {&to, &from};
  HostWalk walk = make_walk(views);
  const auto bytes = static_cast<int64_t>(element_size(to.dtype));
  const int64_t group = 16 / bytes;
  if (group == 1 || walk.strides[1][0] != -bytes || walk.sizes[0] % group != 0) return false;
  HostWalk forward = walk;  // the same groups, read from their low end
  forward.strides[1][0] = bytes;
  forward.data[1] -= 16 - bytes;
  if (!has_groups(forward, 0, bytes, group) || !has_groups(forward, 1, bytes, group)) return false;
  group_inner(walk, group);
  each_part(walk, [&](const HostWalk& part, bool) {
    ReverseParams params{};
    fill_walk(params.walk, part);
    params.to = part.data[0];
    params.from = part.data[1];
    params.count = static_cast<unsigned>(part.count());
    const dim3 blocks((params.count + kThreads - 1) / kThreads);
    const Launch launch{op, to.device.index};
    visit_element_size(to.dtype, [&]<class T>() {
      if constexpr (sizeof(T) < 16)
        launch(reverse_kernel<sizeof(T)>, blocks, dim3(kThreads), params);
    });
  });
  return true;
}

Divisor divisor_of(int64_t number) {
  const DivisorNumbers numbers = divisor_numbers(number);
  return {numbers.divisor, numbers.multiplier, numbers.shift};
}

// The dim along which the source is contiguous while the target is along dim 0; 0 if there is none.
int transposed_dim(const HostWalk& walk, int64_t bytes) {
  constexpr int64_t kWorthwhile = 8;
  if (walk.strides[0][0] != bytes || walk.strides[1][0] == bytes || walk.strides[1][0] <= 0)
    return 0;
  for (int d = 1; d < walk.dims; ++d)
    if (walk.strides[1][d] == bytes && walk.sizes[d] >= kWorthwhile && walk.sizes[0] >= kWorthwhile)
      return d;
  return 0;
}

// Whether every access of turn_kernel is aligned and whole.
bool has_squares(const HostWalk& walk, int dim, int64_t bytes) {
  if (bytes == 16) return false;  // an element is an access already
  const int64_t square = bytes == 1 ? 8 : 16 / bytes, access = square * bytes;
  if (walk.sizes[0] % square != 0 || walk.sizes[dim] % square != 0) return false;
  for (int k = 0; k < 2; ++k) {
    if (reinterpret_cast<uintptr_t>(walk.data[k]) % static_cast<uintptr_t>(access) != 0)
      return false;
    const int inner = k == 0 ? 0 : dim;
    for (int d = 0; d < walk.dims; ++d)
      if (d != inner && walk.strides[k][d] % access != 0) return false;
  }
  return true;
}

template <class T>
void launch_transpose(std::string_view op, int device, const HostWalk& walk, int dim) {
  HostWalk rest;
  rest.arrays = 2;
  for (int d = 1; d < walk.dims; ++d) {
    if (d == dim) continue;
    rest.sizes[rest.dims] = walk.sizes[d];
    for (int k = 0; k < 2; ++k) rest.strides[k][rest.dims] = walk.strides[k][d];
    ++rest.dims;
  }
  if (rest.dims == 0) {
    rest.dims = 1;
    rest.sizes[0] = 1;
  }
  constexpr int bytes = sizeof(T);
  const bool squares = has_squares(walk, dim, bytes);
  const int64_t tile_x = squares ? kTurnX<bytes> : kTile<T>;
  const int64_t tile_y = squares ? kTurnY<bytes> : kTile<T>;
  const int64_t tiles_x = (walk.sizes[dim] + tile_x - 1) / tile_x;
  const int64_t tiles_y = (walk.sizes[0] + tile_y - 1) / tile_y;
  TransposeParams params;
  params.from = walk.data[1];
  params.to = walk.data[0];
  params.size_x = static_cast<unsigned>(walk.sizes[dim]);
  params.size_y = static_cast<unsigned>(walk.sizes[0]);
  params.from_stride_y = static_cast<unsigned>(walk.strides[1][0]);
  params.to_stride_x = static_cast<unsigned>(walk.strides[0][dim]);
  params.tiles_x = divisor_of(tiles_x);
  params.tiles_y = divisor_of(tiles_y);
  fill_walk(params.rest, rest);
  const dim3 blocks(static_cast<unsigned>(tiles_x * tiles_y * rest.count()));
  const Launch launch{op, device};
  if constexpr (bytes < 16)
    if (squares) return launch(turn_kernel<bytes>, blocks, dim3(kThreads), params);
  launch(tile_kernel<T>, blocks, dim3(kTileThreadsX, kTileThreadsY), params);
}

bool copy_transposed(std::string_view op, const View& from, const View& to) {
  const View* const views[] = {&to, &from};
  const HostWalk walk = make_walk(views);
  const auto bytes = static_cast<int64_t>(element_size(to.dtype));
  if (transposed_dim(walk, bytes) == 0) return false;
  each_part(walk, [&](const HostWalk& part, bool) {
    const int dim = transposed_dim(walk, bytes);
    const int device = to.device.index;
    visit_element_size(to.dtype, [&]<class T>() { launch_transpose<T>(op, device, part, dim); });
  });
  return true;
}

}  // namespace

void copy_elements(std::string_view op, const View& from, const View& to) {
  if (to.numel == 0) return;
  if (is_quantized(to.dtype)) return copy_elements(op, blocks_as_bytes(from), blocks_as_bytes(to));
  const bool same_layout = from.sizes == to.sizes && from.dtype == to.dtype &&
                           ((from.contiguous && to.contiguous) ||
                            (from.strides == to.strides && is_dense(to.sizes, to.strides)));
  if (same_layout) {
    use_device(to.device.index);
    note_launch(op);
    check_cuda(cudaMemcpyAsync(to.data, from.data, to.bytes(), cudaMemcpyDeviceToDevice,
                               current_stream(to.device.index)),
               "the copy on the device");
    after_launch(op, to.device.index);
    return;
  }
  if (from.dtype == to.dtype && (copy_transposed(op, from, to) || copy_reversed(op, from, to)))
    return;
  if (from.dtype == to.dtype && is_wide_unsigned(to.dtype)) {
    View source = from, target = to;
    source.dtype = target.dtype = signed_dtype(to.dtype);
    return copy_by_elements(op, source, target, target.dtype);
  }
  const bool widens = is_complex(to.dtype) && !is_complex(from.dtype);
  copy_by_elements(op, from, to, widens ? to.dtype : from.dtype);
}

void fill_elements(std::string_view op, const View& to, Scalar value) {
  if (to.numel == 0) return;
  auto complex = value.to<Complex<double>>();
  double floating = value.to<double>();
  int64_t integer = value.is_complex() ? 0 : value.to<int64_t>();
  View number;
  number.data = value.is_complex()    ? static_cast<void*>(&complex)
                : value.is_floating() ? static_cast<void*>(&floating)
                                      : &integer;
  number.dtype = value.is_complex()    ? DType::complex128
                 : value.is_floating() ? DType::float64
                                       : DType::int64;
  View target = to;
  target.dtype = signed_dtype(to.dtype);
  copy_by_elements(op, number, target, target.dtype);
}

}  // namespace tensora::cuda
