#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/attention/attention_problem.h"
#include "tensora/ops/paged/paged_store_call.h"
#include "tensora/ops/paged/paged_store_op.h"

namespace tensora::cuda {
namespace {

using A = PagedStoreAttrs;

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
  call.op = context.op.data();
  call.fault = device_fault(device);
  call.known_positions = table.sizes[0];
  call.slot_sentence = "a slot is not in the cache";
  store_paged(context.op, device, call);
}

}  // namespace

void register_paged_store_cuda() {
  paged_store_op.set_kernel(DeviceType::cuda, paged_store_kernel);
}

}  // namespace tensora::cuda
