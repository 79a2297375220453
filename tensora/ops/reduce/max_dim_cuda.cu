#include "tensora/backend/cuda/loops/extremum.cuh"
#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cuda {
namespace {

// The extremum and its position. Of several that tie the first is taken, whichever thread saw it.
// A lane starts with the worst value at no position. One that met nothing better keeps that; if all
// did, everything is the worst value, and the first position is the answer.
template <class C, bool largest, bool values>
struct Chosen {
  using Value = C;
  struct Acc {
    C value;
    unsigned index;
  };
  static constexpr unsigned kNone = 0xffffffffu;
  static constexpr bool kIndexed = true;
  static constexpr int kOutputs = values ? 2 : 1;
  __device__ Acc init() const { return {worst<largest, C>(), kNone}; }
  // Positions rise within a lane, so the first of equals stays.
  __device__ Acc step(Acc acc, C x, unsigned index) const {
    const bool better = replaces<largest>(x, acc.value);
    return {better ? x : acc.value, better ? index : acc.index};
  }
  __device__ Acc combine(Acc a, Acc b) const {
    if (replaces<largest>(b.value, a.value)) return b;
    const bool ties = !replaces<largest>(a.value, b.value);
    return ties && b.index < a.index ? b : a;
  }
  __device__ auto first(Acc acc) const {
    if constexpr (values)
      return acc.value;
    else
      return second(acc);
  }
  __device__ int64_t second(Acc acc) const { return acc.index == kNone ? 0 : acc.index; }
};

template <bool largest>
void chosen_kernel(const KernelContext& context, const DimAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim ? Dims{*attrs.dim} : Dims{}, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() {
    if (context.out.size() == 2)
      reduce(context, mask, Chosen<C, largest, true>{});
    else
      reduce(context, mask, Chosen<C, largest, false>{});
  });
}

}  // namespace

void register_max_dim_cuda() {
  for (const OpDef<DimAttrs>* op : {&max_dim_op, &argmax_op})
    op->set_kernel(DeviceType::cuda, chosen_kernel<true>);
  for (const OpDef<DimAttrs>* op : {&min_dim_op, &argmin_op})
    op->set_kernel(DeviceType::cuda, chosen_kernel<false>);
}

}  // namespace tensora::cuda
