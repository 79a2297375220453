#include "tensora/backend/cuda/loops/copy.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/paged/paged_attention_op.h"
#include "tensora/ops/paged/paged_tiles.cuh"
#include "tensora/ops/quant/quant_results.cuh"

namespace tensora::cuda {
namespace {

// Note [Routes of paged attention]
// Queries of float16 and bfloat16 with head sizes that are multiples of 8 up to 256 go to the
// tensor cores: by paged_decode.cuh where a sequence has one query, or 16 at most in all heads of a
// group; where there are more, on Hopper by paged_prefill_sm90a.cu if it can, otherwise by
// paged_prefill.cuh. The former's tiles of 128 queries are worth it even where they are mostly
// empty: over 4096 keys, 64 queries take 65 us in them, and 16 take 318 us in the latter's. All
// others come here: a block per query and head, whose warps take every fourth key.
constexpr int kMostSize = 256, kGeneralWarps = kPagedThreads / 32;

__global__ void __launch_bounds__(kPagedThreads)
    paged_general(const __grid_constant__ PagedCall call) {
  constexpr int kOwn = kMostSize / 32;  // numbers of a head per lane
  __shared__ float sums[kGeneralWarps][kMostSize], largest[kGeneralWarps], totals[kGeneralWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = blockIdx.x;
  const int token = static_cast<int>(row / call.heads), head = static_cast<int>(row % call.heads);
  const int sequence = sequence_of(call, token);
  float query[kOwn], own[kOwn] = {}, most = kHidden, total = 0;
  if (sequence >= 0) {
    const PagedPlace place(call, sequence, head / (call.heads / call.groups));
    const int number = token - place.first_query, position = place.position(number);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int d = lane + 32 * i;
      query[i] = d < call.size ? cached_number(call.query, call.dtype, row * call.size + d) : 0.0f;
    }
    for (int key = place.first_seen(call, number) + warp; key <= position; key += kGeneralWarps) {
      const int64_t at = place.row(call, key) * call.size;
      float score = 0;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int d = lane + 32 * i;
        if (d < call.size)
          score = fmaf(query[i], cached_number(call.keys, call.cache_dtype, at + d), score);
      }
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        score += __shfl_xor_sync(kWholeWarp, score, distance);
      score *= call.scale;
      if (call.softcap > 0) score = call.softcap * kLog2E * tanhf(score / call.softcap);
      const float before = most;
      most = fmaxf(most, score);
      const float shrink = exp2f(before - most), weight = exp2f(score - most);
      total = fmaf(total, shrink, weight);
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int d = lane + 32 * i;
        if (d < call.size)
          own[i] =
              fmaf(own[i], shrink, weight * cached_number(call.values, call.cache_dtype, at + d));
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) sums[warp][lane + 32 * i] = own[i];
  if (lane == 0) largest[warp] = most, totals[warp] = total;
  __syncthreads();
  most = kHidden, total = 0;
  for (float each : largest) most = fmaxf(most, each);
  for (int w = 0; w < kGeneralWarps; ++w)
    if (largest[w] != kHidden) total += totals[w] * exp2f(largest[w] - most);
  for (int d = static_cast<int>(threadIdx.x); d < call.size; d += kPagedThreads) {
    float sum = 0;
    for (int w = 0; w < kGeneralWarps; ++w)
      if (largest[w] != kHidden) sum += sums[w][d] * exp2f(largest[w] - most);
    store_number(call.out, call.dtype, row * call.size + d, total == 0 ? 0.0f : sum / total);
  }
}

PagedCall call_of(const KernelContext& context, const PagedAttentionAttrs& attrs) {
  const View &query = context.input(0), &keys = context.input(1), &lengths = context.input(4),
             &table = context.input(5);
  PagedCall call{};
  call.query = query.as<const char>();
  call.keys = keys.as<const char>();
  call.values = context.input(2).as<const char>();
  call.out = context.output().as<char>();
  call.starts = context.input(3).as<const int>();
  call.lengths = lengths.as<const int>();
  call.table = table.as<const int>();
  call.tokens = query.sizes[0];
  call.sequences = static_cast<int>(lengths.sizes[0]);
  call.heads = static_cast<int>(query.sizes[1]);
  call.groups = static_cast<int>(keys.sizes[1]);
  call.size = static_cast<int>(query.sizes[2]);
  call.block_size = static_cast<int>(keys.sizes[2]);
  call.block_shift = -1;
  for (int shift = 0; shift < 31; ++shift)
    if (call.block_size == 1 << shift) call.block_shift = shift;
  call.blocks_per_sequence = static_cast<int>(table.sizes[1]);
  call.blocks = keys.sizes[0];
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t held = table.sizes[1] * keys.sizes[2];
  check(call.tokens < kMost && call.tokens * call.heads < kMost && held < kMost &&
            call.sequences < 65536 && call.size <= kMostSize,
        context.op, ": on cuda heads have at most ", kMostSize,
        " numbers, a call at most 65535 sequences and 2^30 queries and places; got ", call.size,
        ", ", call.sequences, ", ", call.tokens * call.heads, " and ", held);
  const auto bound = [](int64_t given, int64_t most) {
    return static_cast<int>(given > 0 && given < most ? given : most);
  };
  call.max_query = bound(attrs.max_query, call.tokens);
  call.max_length = bound(attrs.max_length, held);
  call.dtype = query.dtype;
  call.cache_dtype = keys.dtype;
  const double scale = attrs.scale.value_or(1 / std::sqrt(static_cast<double>(call.size)));
  call.softcap = static_cast<float>(attrs.softcap);
  call.scale = static_cast<float>(call.softcap > 0 ? scale : scale * double{kLog2E});
  call.window = static_cast<int>(std::min<int64_t>(attrs.window, kMost));
  return call;
}

void paged_attention_kernel(const KernelContext& context, const PagedAttentionAttrs& attrs) {
  const View& out = context.output();
  if (out.numel == 0) return;
  const PagedCall call = call_of(context, attrs);
  const int device = context.device.index;
  if (call.sequences == 0 || call.max_length == 0) return fill_elements(context.op, out, 0);
  const bool narrow = out.dtype == DType::float16 || out.dtype == DType::bfloat16;
  const auto aligned = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  if (!narrow || call.size % 8 != 0 || !aligned(call.query) || !aligned(call.keys) ||
      !aligned(call.values))
    return general_paged_attention(context.op, device, call);
  const bool many = !is_decode(call);
  if (many && runs_sm90a(device) && paged_attention_on_hopper(context.op, device, call)) return;
  if (many) fill_elements(context.op, out, 0);  // tokens of no sequence
  if (out.dtype == DType::bfloat16)
    paged_attention_on_tensor_cores<BFloat16>(context.op, device, call);
  else
    paged_attention_on_tensor_cores<Half>(context.op, device, call);
}

}  // namespace

void general_paged_attention(std::string_view op, int device, const PagedCall& call) {
  Launch{op, device}(paged_general, dim3(static_cast<unsigned>(call.tokens * call.heads)),
                     dim3(kPagedThreads), call);
}

void register_paged_attention_cuda() {
  paged_attention_op.set_kernel(DeviceType::cuda, paged_attention_kernel);
}

}  // namespace tensora::cuda
