#include "tensora/backend/cuda/runtime/runtime.h"
#include "tensora/ops/paged/paged_advance_op.h"

namespace tensora::cuda {
namespace {

using A = PagedAdvanceAttrs;

struct AdvanceRows {
  long long *tokens, *positions, *slots;
  int* lengths;
  long long* choices;
};

struct AdvanceCall {
  AdvanceRows from, to;  // the same, as a rule
  const long long* chosen;
  const int* table;
  int64_t sequences, blocks, block_size;
};

__global__ void __launch_bounds__(128) advance_rows(const __grid_constant__ AdvanceCall call) {
  const int64_t s = int64_t{blockIdx.x} * 128 + threadIdx.x;
  if (s >= call.sequences) return;
  const long long position = call.from.positions[s] + 1, block = position / call.block_size;
  const long long chosen = call.chosen[s];
  call.to.tokens[s] = chosen > 0 ? chosen : 0;
  call.to.positions[s] = position;
  call.to.slots[s] = block < call.blocks ? call.table[s * call.blocks + block] * call.block_size +
                                               (position - block * call.block_size)
                                         : -1;
  call.to.lengths[s] = call.from.lengths[s] + 1;
  for (int i = 0; i < 3; ++i) call.to.choices[s * 3 + i] = call.from.choices[s * 3 + i] + i / 2;
}

template <class Views>
AdvanceRows rows_of(const Views& view) {
  return {view(A::kTokens).template as<long long>(), view(A::kPositions).template as<long long>(),
          view(A::kSlots).template as<long long>(), view(A::kLengths).template as<int>(),
          view(A::kChoices).template as<long long>()};
}

void paged_advance_kernel(const KernelContext& context, const PagedAdvanceAttrs& attrs) {
  const View& table = context.input(A::kTable);
  const int64_t sequences = table.sizes[0];
  if (sequences == 0) return;
  const AdvanceCall call{rows_of([&](size_t i) -> const View& { return context.input(i); }),
                         rows_of([&](size_t i) -> const View& { return context.output(i); }),
                         context.input(A::kChosen).as<const long long>(),
                         table.as<const int>(),
                         sequences,
                         table.sizes[1],
                         attrs.block_size};
  Launch{context.op, context.device.index}(
      advance_rows, dim3(static_cast<unsigned>((sequences + 127) / 128)), dim3(128), call);
}

}  // namespace

void register_paged_advance_cuda() {
  paged_advance_op.set_kernel(DeviceType::cuda, paged_advance_kernel);
}

}  // namespace tensora::cuda
