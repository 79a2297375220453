#include "tensora/backend/cuda/loops/early.cuh"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/paged/paged_heads.cuh"

namespace tensora::cuda {
namespace {

constexpr int kStoreWarps = 4;

// A warp has one head of one token.
__global__ void __launch_bounds__(kStoreWarps * 32)
    store_heads(const __grid_constant__ StoreCall call) {
  extern __shared__ float heads_of_block[];
  begin_next();
  wait_for_previous();
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
    if (lane == 0) note_fault(call.fault, call.op, call.slot_sentence, slot, call.places, 0);
    return;
  }
  const auto row_of = [&](int of) {
    return (slot / call.block_size * call.kv_heads + of) * call.block_size + slot % call.block_size;
  };
  if (value >= 0) {
    if (slot >= 0) store_cached(call, call.values, row_of(value), head);
    return;
  }
  const void* const norm = key < 0 ? call.q_norm : call.k_norm;
  if (norm) normalise(call, norm, key < 0 ? call.q_norm_dtype : call.k_norm_dtype, head);
  const long long position =
      checked_index(call.positions[token], {call.op, call.fault, 0, call.known_positions, 0});
  if (position < 0) return;
  turn(call, call.cos_sin + position * call.turned, head);
  if (key >= 0) {
    if (slot >= 0) store_cached(call, call.keys, row_of(key), head);
    return;
  }
  for (int d = lane; d < call.size; d += 32)
    store_number(call.query, call.dtype, (token * call.heads + index) * call.size + d, head[d]);
}

}  // namespace

void store_paged(std::string_view op, int device, const StoreCall& call) {
  const int64_t heads = call.tokens * (call.heads + 2 * call.kv_heads);
  const int64_t groups = (heads + kStoreWarps - 1) / kStoreWarps;
  check(groups < int64_t{1} << 31 && call.size <= 2048, op, ": too many heads (", heads,
        ") or numbers of a head (", call.size, ") for one launch");
  Launch{op, device, static_cast<unsigned>(kStoreWarps * call.size * 4), true}(
      store_heads, dim3(static_cast<unsigned>(groups)), dim3(kStoreWarps * 32), call);
}

}  // namespace tensora::cuda
