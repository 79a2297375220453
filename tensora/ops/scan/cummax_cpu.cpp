// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/scan/cummax.h"

#include "tensora/backend/cpu/scan.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C, bool largest>
struct RunningExtremum {
  using Value = C;
  struct State {
    C value;
    int64_t index;
  };
  static constexpr bool kIndexed = true;
  State init() const { return {C(0), -1}; }
  State step(State best, C x, int64_t i) const {
    const bool beats = largest ? x >= best.value : x <= best.value;
    return (x != x) | (best.index < 0) | beats ? State{x, i} : best;
  }
  C result(State state) const { return state.value; }
  int64_t index(State state) const { return state.index; }
};

template <bool largest>
void cummax_kernel(const KernelContext& context, const CummaxAttrs& attrs) {
  const View& in = context.input(0);
  const int dim = wrap_dim(attrs.dim, in.dim(), context.op);
  const auto run = [&]<class C>() {
    LineScan<RunningExtremum<C, largest>>(context, dim, false, {}).run();
  };
  if (in.dtype == DType::float64)
    run.template operator()<double>();
  else if (is_floating_point(in.dtype))
    run.template operator()<float>();
  else
    run.template operator()<int64_t>();
}

}  // namespace

void register_cummax_cpu() {
  cummax_op.set_kernel(DeviceType::cpu, cummax_kernel<true>);
  cummin_op.set_kernel(DeviceType::cpu, cummax_kernel<false>);
}

}  // namespace tensora::cpu::TENSORA_ISA
