#include <cmath>

#include "tensora/backend/cuda/memory/scratch.h"
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_mma.cuh"
#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/paged/paged_self_attention_call.h"
#include "tensora/ops/paged/paged_self_attention_op.h"

namespace tensora::cuda {
namespace {

using A = PagedSelfAttentionAttrs;

StoreCall store_call(const KernelContext& context, const A& attrs) {
  const View &qkv = context.input(A::kQkv), &keys = context.input(A::kKeys),
             &table = context.input(A::kCosSin);
  StoreCall call{};
  call.qkv = qkv.as<const char>();
  call.keys = context.output(A::kKeys).as<char>();
  call.values = context.output(A::kValues).as<char>();
  call.positions = context.input(A::kPositions).as<const long long>();
  call.slots = context.input(A::kSlots).as<const long long>();
  call.cos_sin = table.as<const float>();
  call.dtype = qkv.dtype;
  call.cache_dtype = keys.dtype;
  if (const View* norm = optional_input(context, A::kQNorm))
    call.q_norm = norm->data, call.q_norm_dtype = norm->dtype;
  if (const View* norm = optional_input(context, A::kKNorm))
    call.k_norm = norm->data, call.k_norm_dtype = norm->dtype;
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
  call.op = context.op.data();
  call.fault = device_fault(context.device.index);
  call.known_positions = table.sizes[0];
  call.slot_sentence = "a slot is not in the cache";
  return call;
}

PagedCall attention_call(const KernelContext& context, const A& attrs, const StoreCall& store) {
  const View& table = context.input(A::kTable);
  PagedCall call{};
  call.keys = store.keys;
  call.values = store.values;
  call.out = context.output(A::kResult).as<char>();
  call.starts = context.input(A::kStarts).as<const int>();
  call.lengths = context.input(A::kLengths).as<const int>();
  call.table = table.as<const int>();
  call.tokens = store.tokens;
  call.sequences = static_cast<int>(store.tokens);
  call.heads = store.heads;
  call.groups = store.kv_heads;
  call.size = store.size;
  call.block_size = store.block_size;
  call.block_shift = -1;
  for (int shift = 0; shift < 31; ++shift)
    if (call.block_size == 1 << shift) call.block_shift = shift;
  call.blocks_per_sequence = static_cast<int>(table.sizes[1]);
  const int64_t held = table.sizes[1] * store.block_size;
  check(held < int64_t{1} << 30 && store.tokens < 65536, context.op,
        ": on cuda a sequence has at most 2^30 places and a call at most 65535 sequences, got ",
        held, " and ", store.tokens);
  const bool bounded = attrs.max_length > 0 && attrs.max_length < held;
  call.max_query = 1;
  call.only_last_is_new = true;
  call.max_length = static_cast<int>(bounded ? attrs.max_length : held);
  call.dtype = store.dtype;
  call.cache_dtype = store.cache_dtype;
  const double scale = attrs.scale.value_or(1 / std::sqrt(static_cast<double>(call.size)));
  call.softcap = static_cast<float>(attrs.softcap);
  call.scale = static_cast<float>(call.softcap > 0 ? scale : scale * double{kLog2E});
  call.window = static_cast<int>(std::min<int64_t>(attrs.window, int64_t{1} << 30));
  return call;
}

void begin_as_copy(const KernelContext& context, size_t i) {
  const View &from = context.input(i), &to = context.output(i);
  if (from.data == to.data) return;
  check_cuda(cudaMemcpyAsync(to.data, from.data, from.bytes(), cudaMemcpyDeviceToDevice,
                             current_stream(context.device.index)),
             "paged_self_attention: copying a cache");
}

// One kernel for few keys of few sequences. It has eight blocks for each sequence and key/value
// head: too few for many keys, and too many for many sequences, where most of them have no keys.
// The limits are where Note [Division of decode attention] is as fast on an H200.
bool takes_one_step(const StepCall& call) {
  constexpr int kMostLength = 2048, kMostHeads = 64, kMostKeys = 32 << 10;
  const int64_t heads = int64_t{call.attention.sequences} * call.attention.groups;
  return call.attention.max_length <= kMostLength && heads <= kMostHeads &&
         heads * call.attention.max_length <= kMostKeys;
}

void paged_self_attention_kernel(const KernelContext& context, const A& attrs) {
  begin_as_copy(context, A::kKeys);
  begin_as_copy(context, A::kValues);
  const int device = context.device.index;
  StepCall call{};
  call.store = store_call(context, attrs);
  call.attention = attention_call(context, attrs, call.store);
  const auto aligned = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
  const bool readable = aligned(call.store.keys) && aligned(call.store.values);
  if (runs_sm90a(device) && takes_one_step(call) && call.attention.block_shift >= 0 &&
      call.store.turned % 8 == 0 && readable && aligned(call.store.qkv))
    return attend_one_step(context.op, device, call);
  const Scratch query(device, static_cast<size_t>(context.output(A::kResult).bytes()));
  call.store.query = query.data();
  call.attention.query = query.data();
  store_paged(context.op, device, call.store);
  if (!readable) return general_paged_attention(context.op, device, call.attention);
  if (call.attention.dtype == DType::bfloat16)
    paged_attention_on_tensor_cores<BFloat16>(context.op, device, call.attention);
  else
    paged_attention_on_tensor_cores<Half>(context.op, device, call.attention);
}

}  // namespace

void register_paged_self_attention_cuda() {
  paged_self_attention_op.set_kernel(DeviceType::cuda, paged_self_attention_kernel);
}

}  // namespace tensora::cuda
