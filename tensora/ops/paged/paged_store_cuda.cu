#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/loops/indexing.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/paged/paged_store_op.h"
#include "tensora/ops/quant/q8_0.h"
#include "tensora/ops/quant/quant_results.cuh"

namespace tensora::cuda {
namespace {

using A = PagedStoreAttrs;

constexpr int kStoreWarps = 4;

struct StoreCall {
  const char* qkv;
  char *query, *keys, *values;
  const long long *positions, *slots;
  const float* cos_sin;
  const void *q_norm, *k_norm;
  DType dtype, cache_dtype, q_norm_dtype, k_norm_dtype;
  int64_t tokens, places;
  int heads, kv_heads, size, turned, block_size;  // turned: how many numbers of a head
  float eps, unit_offset;
  bool in_halves;
  IndexLimits limits;  // of positions
  const char* slot_sentence;
};

// Sums over a warp; every lane gets the sum.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  return value;
}

__device__ inline void normalise(const StoreCall& call, const void* weight, DType dtype,
                                 float* head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float squares = 0;
  for (int d = lane; d < call.size; d += 32) squares = fmaf(head[d], head[d], squares);
  const float factor = rsqrtf(warp_sum(squares) / static_cast<float>(call.size) + call.eps);
  for (int d = lane; d < call.size; d += 32)
    head[d] *= factor * (any_number(weight, dtype, d) + call.unit_offset);
  __syncwarp();
}

__device__ inline void turn(const StoreCall& call, long long position, float* head) {
  const int half = call.turned / 2;
  const float* const angles = call.cos_sin + position * call.turned;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < half; i += 32) {
    const int a = call.in_halves ? i : 2 * i, b = call.in_halves ? i + half : 2 * i + 1;
    const float cosine = angles[i], sine = angles[half + i], x = head[a], y = head[b];
    head[a] = x * cosine - y * sine;
    head[b] = y * cosine + x * sine;
  }
  __syncwarp();
}

__device__ inline void store_cached(const StoreCall& call, char* cache, long long slot, int head,
                                    const float* from) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row =
      (slot / call.block_size * call.kv_heads + head) * call.block_size + slot % call.block_size;
  if (call.cache_dtype == DType::q8_0) {
    auto* const blocks = reinterpret_cast<BlockQ8_0*>(cache) + row * (call.size / 32);
    for (int b = 0; b < call.size / 32; ++b) {
      const float value = from[b * 32 + lane];
      float largest = fabsf(value);
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(kWholeWarp, largest, distance);
        largest = largest <= other || other != other ? other : largest;  // NaN stays
      }
      const float scale = BlockQ8_0::scale_of(largest);
      if (lane == 0) blocks[b].scale = Half(scale);
      blocks[b].q[lane] = BlockQ8_0::rounded(value, scale);
    }
    return;
  }
  for (int d = lane; d < call.size; d += 32) {
    if (call.cache_dtype == DType::float8_e4m3fn)
      reinterpret_cast<Float8E4M3*>(cache)[row * call.size + d] = Float8E4M3(from[d]);
    else
      store_number(cache, call.cache_dtype, row * call.size + d, from[d]);
  }
}

// A warp has one head of one token.
__global__ void __launch_bounds__(kStoreWarps * 32)
    store_heads(const __grid_constant__ StoreCall call) {
  extern __shared__ float heads_of_block[];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int all = call.heads + 2 * call.kv_heads;
  const int64_t number = int64_t{blockIdx.x} * kStoreWarps + warp;
  if (number >= call.tokens * all) return;
  const int64_t token = number / all;
  const int index = static_cast<int>(number % all), key = index - call.heads,
            value = key - call.kv_heads;
  float* const head = heads_of_block + warp * call.size;
  for (int d = lane; d < call.size; d += 32)
    head[d] = any_number(call.qkv, call.dtype, number * call.size + d);
  __syncwarp();
  const long long slot = call.slots[token];
  if (slot < -1 || slot >= call.places) {
    if (lane == 0)
      note_fault(call.limits.fault, call.limits.op, call.slot_sentence, slot, call.places, 0);
    return;
  }
  if (value >= 0) {
    if (slot >= 0) store_cached(call, call.values, slot, value, head);
    return;
  }
  const void* const norm = key < 0 ? call.q_norm : call.k_norm;
  if (norm) normalise(call, norm, key < 0 ? call.q_norm_dtype : call.k_norm_dtype, head);
  const long long position = checked_index(call.positions[token], call.limits);
  if (position < 0) return;
  turn(call, position, head);
  if (key >= 0) {
    if (slot >= 0) store_cached(call, call.keys, slot, key, head);
    return;
  }
  for (int d = lane; d < call.size; d += 32)
    store_number(call.query, call.dtype, (token * call.heads + index) * call.size + d, head[d]);
}

// The caches are written in place, as a rule.
void begin_as_copy(const KernelContext& context, size_t i) {
  const View &from = context.input(i), &to = context.output(i);
  if (from.data == to.data) return;
  const int device = context.device.index;
  check_cuda(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDeviceToDevice,
                             current_stream(device)),
             "paged_store: copying a cache");
}

void paged_store_kernel(const KernelContext& context, const A& attrs) {
  begin_as_copy(context, A::kKeys);
  begin_as_copy(context, A::kValues);
  const View &qkv = context.input(A::kQkv), &keys = context.input(A::kKeys),
             &table = context.input(A::kCosSin);
  if (qkv.numel == 0) return;
  const int device = context.device.index;
  StoreCall call{};
  call.qkv = qkv.as<const char>();
  call.query = context.output(A::kQuery).as<char>();
  call.keys = context.output(A::kKeys).as<char>();
  call.values = context.output(A::kValues).as<char>();
  call.positions = context.input(A::kPositions).as<const long long>();
  call.slots = context.input(A::kSlots).as<const long long>();
  call.cos_sin = table.as<const float>();
  call.dtype = qkv.dtype;
  call.cache_dtype = keys.dtype;
  if (const View* norm = optional_input(context, A::kQNorm)) {
    call.q_norm = norm->data;
    call.q_norm_dtype = norm->dtype;
  }
  if (const View* norm = optional_input(context, A::kKNorm)) {
    call.k_norm = norm->data;
    call.k_norm_dtype = norm->dtype;
  }
  call.tokens = qkv.sizes[0];
  call.places = keys.sizes[0] * keys.sizes[2];
  call.heads = static_cast<int>(attrs.heads);
  call.kv_heads = static_cast<int>(attrs.kv_heads);
  call.size = static_cast<int>(keys.sizes[3]);
  call.turned = static_cast<int>(table.sizes[1]);
  call.block_size = static_cast<int>(keys.sizes[2]);
  call.eps = static_cast<float>(attrs.eps);
  call.unit_offset = attrs.unit_offset ? 1.0f : 0.0f;
  call.in_halves = attrs.in_halves;
  call.limits = {context.op.data(), device_fault(device), 0, table.sizes[0], 0};
  call.slot_sentence = "a slot is not in the cache";
  const int64_t heads = call.tokens * (call.heads + 2 * call.kv_heads);
  const int64_t groups = (heads + kStoreWarps - 1) / kStoreWarps;
  check(groups < int64_t{1} << 31 && call.size <= 2048, context.op, ": too many heads (", heads,
        ") or numbers of a head (", call.size, ") for one launch");
  Launch{context.op, device, static_cast<unsigned>(kStoreWarps * call.size * 4)}(
      store_heads, dim3(static_cast<unsigned>(groups)), dim3(kStoreWarps * 32), call);
}

}  // namespace

void register_paged_store_cuda() {
  paged_store_op.set_kernel(DeviceType::cuda, paged_store_kernel);
}

}  // namespace tensora::cuda
