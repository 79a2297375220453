// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/scan/logcumsumexp.h"

#include <cmath>
#include <limits>

#include "tensora/backend/cpu/scan.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// The sum of exponentials relative to the largest exponent; in double, since a running sum has no
// pairwise order to save it.
struct RunningLogSum {
  using Value = double;
  struct State {
    double largest, sum;
  };
  static constexpr bool kIndexed = false;
  State init() const { return {-std::numeric_limits<double>::infinity(), 0}; }
  State step(State state, double x, int64_t) const {
    const double largest = x > state.largest || x != x ? x : state.largest;
    // Equal infinities have the difference 0.
    const double old = state.largest == largest ? 0 : state.largest - largest;
    const double mine = x == largest ? 0 : x - largest;
    return {largest, state.sum * std::exp(old) + std::exp(mine)};
  }
  double result(State state) const { return state.largest + std::log(state.sum); }
  int64_t index(State) const { return 0; }
};

void logcumsumexp_kernel(const KernelContext& context, const LogcumsumexpAttrs& attrs) {
  const int dim = wrap_dim(attrs.dim, context.input(0).dim(), context.op);
  LineScan<RunningLogSum>(context, dim, attrs.reverse, {}).run();
}

}  // namespace

void register_logcumsumexp_cpu() {
  logcumsumexp_op.set_kernel(DeviceType::cpu, logcumsumexp_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
