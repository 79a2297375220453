#include "tensora/backend/cuda/loops/barriers.cuh"
#include "tensora/backend/cuda/loops/cluster.cuh"
#include "tensora/backend/cuda/runtime/shared_memory.h"
#include "tensora/ops/norm/batch_norm_held.h"
#include "tensora/ops/norm/channels.cuh"

// Note [Channels held by a cluster]
// batch_norm needs a channel's moments before it can write the first result, so it would read every
// element twice. A channel of a large batch does not fit the shared memory of one multiprocessor,
// but that of eight: each block of a cluster copies every eighth sample's plane there, the blocks
// add up their sums, and each writes the results of what it holds. Two blocks fit a multiprocessor,
// so that one copies while the other writes.

namespace tensora::cuda {
namespace {

constexpr int kCluster = 8;
constexpr unsigned kHeldThreads = 512;
constexpr int64_t kMostHeld = 110 * 1024;  // bytes of a block: two share a multiprocessor's 227 KiB

struct HeldParams {
  ApplyParams apply;
  float *mean, *variance;
  unsigned plane_bytes;
};

/// The planes of this block's samples begin to arrive in `planes`; returns how many there are.
__device__ inline unsigned request_planes(const HeldParams& params, unsigned channel, int rank,
                                          char* planes, unsigned barrier) {
  const ChannelArrays<2>& arrays = params.apply.arrays;
  const unsigned count = (static_cast<unsigned>(arrays.samples) + kCluster - 1 - rank) / kCluster;
  if (threadIdx.x == 0) {
    init_barrier(barrier, 1);
    fence_barriers();
    expect_bytes(barrier, count * params.plane_bytes);
    const char* from = arrays.data[1] + channel * arrays.channel[1] + rank * arrays.outer[1];
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(planes));
    for (unsigned i = 0; i < count; ++i, from += kCluster * arrays.outer[1])
      copy_run(to + i * params.plane_bytes, from, params.plane_bytes, barrier);
  }
  return count;
}

template <class T>
__device__ inline void held_pack(const char* planes, unsigned pack, float (&to)[16 / sizeof(T)]) {
  load_pack<T>(planes + pack * 16, to);
}

/// The sums of distances from `origin` and of their squares, over all blocks of the cluster.
template <class T>
__device__ inline ChannelSums<double> held_sums(const char* planes, unsigned packs, float origin,
                                                ChannelSums<double>& of_block) {
  constexpr int kPack = 16 / sizeof(T);
  float sum = 0, squares = 0;
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < packs; i += kHeldThreads) {
    float values[kPack];
    held_pack<T>(planes, i, values);
#pragma unroll
    for (const float value : values) {
      const float distance = value - origin;
      sum += distance;
      squares += distance * distance;
    }
  }
  const auto add = [](ChannelSums<double> a, ChannelSums<double> b) {
    return ChannelSums<double>{a.first + b.first, a.second + b.second};
  };
  const auto own = across_group<kHeldThreads>(ChannelSums<double>{sum, squares}, add);
  if (threadIdx.x == 0) of_block = own;
  join_cluster();
  ChannelSums<double> total{0, 0};
#pragma unroll
  for (int rank = 0; rank < kCluster; ++rank)
    total = add(total,
                {number_of_block(&of_block.first, rank), number_of_block(&of_block.second, rank)});
  return total;
}

template <class T>
__global__ void __cluster_dims__(kCluster, 1, 1) __launch_bounds__(kHeldThreads, 2)
    held_channels(const __grid_constant__ HeldParams params) {
  constexpr int kPack = 16 / sizeof(T);
  extern __shared__ __align__(128) char planes[];
  __shared__ unsigned long long arrived;
  __shared__ ChannelSums<double> of_block;
  const ChannelArrays<2>& arrays = params.apply.arrays;  // result, input
  const unsigned channel = blockIdx.x / kCluster;
  const int rank = static_cast<int>(blockIdx.x % kCluster);
  const auto barrier = static_cast<unsigned>(__cvta_generic_to_shared(&arrived));
  const unsigned count = request_planes(params, channel, rank, planes, barrier);
  const unsigned packs_per_plane = params.plane_bytes / 16, packs = count * packs_per_plane;
  const float origin =
      load_value<float>(*reinterpret_cast<const T*>(arrays.data[1] + channel * arrays.channel[1]));
  const float weight = params.apply.weight.at(channel, 1.f),
              bias = params.apply.bias.at(channel, 0.f);
  __syncthreads();  // the barrier is there
  wait_for_barrier(barrier, 0);

  const ChannelSums<double> sums = held_sums<T>(planes, packs, origin, of_block);
  arrive_at_cluster();  // has read what others hold
  const double elements = static_cast<double>(arrays.samples) * static_cast<double>(arrays.plane);
  const double offset = sums.first / elements;
  const double spread = sums.second / elements - offset * offset;
  const auto mean = static_cast<float>(static_cast<double>(origin) + offset);
  const auto variance = static_cast<float>(spread < 0 ? 0 : spread);
  if (threadIdx.x == 0 && rank == 0) {
    params.mean[channel] = mean;
    params.variance[channel] = variance;
  }
  const float scale = weight / math::sqrt(variance + static_cast<float>(params.apply.eps));
  char* const to = arrays.data[0] + channel * arrays.channel[0] + rank * arrays.outer[0];
#pragma unroll 4
  for (unsigned i = threadIdx.x; i < packs; i += kHeldThreads) {
    float values[kPack];
    held_pack<T>(planes, i, values);
#pragma unroll
    for (float& value : values) value = (value - mean) * scale + bias;
    const unsigned sample = arrays.packs_per_plane.divide(i);
    store_pack<T>(to + sample * kCluster * arrays.outer[0] + (i - sample * packs_per_plane) * 16,
                  values);
  }
  wait_for_cluster();  // no block may leave while others read its memory
}

}  // namespace

bool normalise_held_channels(std::string_view op, int device, const ChannelGrid& grid,
                             const ApplyParams& params, float* mean, float* variance) {
  const ChannelArrays<2>& arrays = params.arrays;
  const int64_t plane_bytes = arrays.plane * arrays.bytes;
  const int64_t held = (arrays.samples + kCluster - 1) / kCluster * plane_bytes;
  // Below that, a channel is read twice from the cache, by more blocks.
  constexpr int64_t kLeastChannels = 64, kLeastHeld = 16 * 1024;
  if (!runs_sm90a(device) || !grid.planes || grid.pack * arrays.bytes != 16 ||
      arrays.channels < kLeastChannels || held < kLeastHeld || held > kMostHeld)
    return false;
  const HeldParams call{params, mean, variance, static_cast<unsigned>(plane_bytes)};
  const auto run = [&](void (*kernel)(HeldParams)) {
    allow_shared_memory(device, reinterpret_cast<const void*>(kernel), kMostHeld);
    Launch{op, device, static_cast<unsigned>(held)}(kernel, dim3(arrays.channels * kCluster),
                                                    dim3(kHeldThreads), call);
  };
  if (arrays.dtype == DType::float32)
    run(held_channels<float>);
  else
    run(arrays.dtype == DType::float16 ? held_channels<Half> : held_channels<BFloat16>);
  return true;
}

}  // namespace tensora::cuda
