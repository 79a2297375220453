#include "tensora/backend/cuda/copy.h"

#include "tensora/backend/cuda/checked.h"
#include "tensora/backend/cuda/launch_walk.cuh"
#include "tensora/backend/cuda/pointwise.cuh"
#include "tensora/backend/cuda/runtime.h"

namespace tensora::cuda {
namespace {

struct Identity : functors::Unary {
  template <class V>
  constexpr V forward(V self) const {
    return self;
  }
};

// Every source value is exact in its own compute type, so the only rounding is the store's.
void copy_by_elements(std::string_view op, const View& from, const View& to, DType compute) {
  static const FunctorKernels kernels = functor_kernels<Identity>();
  const Identity identity;
  const View* const in[] = {&from};
  const View* const out[] = {&to};
  run_pointwise({op, in, out, to.device, compute}, kernels, 1, &identity);
}

// Note [Transposed copies on the GPU]
// Of two arrays laid out along different dims only one can be walked in its own order; the other
// would touch a memory sector per element. A tile is read along the source's dim into shared memory
// and written along the target's. One column of padding keeps the threads of a warp, which read
// down a column, in different banks.
struct TransposeParams {
  const char* from;
  char* to;
  unsigned size_x, size_y;              // x: the source's inner dim, y: the target's
  unsigned from_stride_y, to_stride_x;  // in bytes
  Divisor tiles_x, tiles_y;
  Walk<2> rest;  // the other dims: array 0 the target, 1 the source
};

template <class T>
inline constexpr unsigned kTile = sizeof(T) <= 2 ? 64 : 32;
constexpr unsigned kTileThreadsX = 32, kTileThreadsY = 8;

template <class T>
__global__ void transpose_kernel(const __grid_constant__ TransposeParams params) {
  __shared__ T tile[kTile<T>][kTile<T> + 1];
  const unsigned above = params.tiles_x.divide(blockIdx.x);
  const unsigned x0 = (blockIdx.x - above * params.tiles_x.divisor) * kTile<T>;
  const unsigned batch = params.tiles_y.divide(above);
  const unsigned y0 = (above - batch * params.tiles_y.divisor) * kTile<T>;
  int at[2];
  params.rest.offsets(batch, at);
  const char* const from = params.from + at[1];
  char* const to = params.to + at[0];
  for (unsigned y = threadIdx.y; y < kTile<T> && y0 + y < params.size_y; y += kTileThreadsY)
    for (unsigned x = threadIdx.x; x < kTile<T> && x0 + x < params.size_x; x += kTileThreadsX)
      tile[y][x] = *reinterpret_cast<const T*>(from + (y0 + y) * params.from_stride_y +
                                               (x0 + x) * unsigned{sizeof(T)});
  __syncthreads();
  for (unsigned x = threadIdx.y; x < kTile<T> && x0 + x < params.size_x; x += kTileThreadsY)
    for (unsigned y = threadIdx.x; y < kTile<T> && y0 + y < params.size_y; y += kTileThreadsX)
      *reinterpret_cast<T*>(to + (x0 + x) * params.to_stride_x + (y0 + y) * unsigned{sizeof(T)}) =
          tile[y][x];
}

Divisor divisor_of(int64_t number) {
  const DivisorNumbers numbers = divisor_numbers(number);
  return {numbers.divisor, numbers.multiplier, numbers.shift};
}

// The dim along which the source is gapless while the target is along dim 0; 0 if there is none.
int transposed_dim(const HostWalk& walk, int64_t bytes) {
  constexpr int64_t kWorthwhile = 8;
  if (walk.strides[0][0] != bytes || walk.strides[1][0] == bytes || walk.strides[1][0] <= 0)
    return 0;
  for (int d = 1; d < walk.dims; ++d)
    if (walk.strides[1][d] == bytes && walk.sizes[d] >= kWorthwhile && walk.sizes[0] >= kWorthwhile)
      return d;
  return 0;
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
  const int64_t tiles_x = (walk.sizes[dim] + kTile<T> - 1) / kTile<T>;
  const int64_t tiles_y = (walk.sizes[0] + kTile<T> - 1) / kTile<T>;
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
  Launch{op, device}(transpose_kernel<T>, blocks, dim3(kTileThreadsX, kTileThreadsY), params);
}

bool copy_transposed(std::string_view op, const View& from, const View& to) {
  const View* const views[] = {&to, &from};
  const HostWalk walk = make_walk(views);
  const auto bytes = static_cast<int64_t>(element_size(to.dtype));
  if (transposed_dim(walk, bytes) == 0) return false;
  each_part(walk, [&](const HostWalk& part, bool) {
    const int dim = transposed_dim(walk, bytes);
    const int device = to.device.index;
    if (bytes == 1)
      launch_transpose<uint8_t>(op, device, part, dim);
    else if (bytes == 2)
      launch_transpose<uint16_t>(op, device, part, dim);
    else if (bytes == 4)
      launch_transpose<uint32_t>(op, device, part, dim);
    else
      launch_transpose<uint64_t>(op, device, part, dim);
  });
  return true;
}

}  // namespace

void copy_elements(std::string_view op, const View& from, const View& to) {
  if (to.numel == 0) return;
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
  if (from.dtype == to.dtype && copy_transposed(op, from, to)) return;
  copy_by_elements(op, from, to, from.dtype);
}

void fill_elements(std::string_view op, const View& to, Scalar value) {
  if (to.numel == 0) return;
  double floating = value.to<double>();
  int64_t integer = value.to<int64_t>();
  View number;
  number.data = value.is_floating() ? static_cast<void*>(&floating) : &integer;
  number.dtype = value.is_floating() ? DType::float64 : DType::int64;
  copy_by_elements(op, number, to, to.dtype);
}

}  // namespace tensora::cuda
