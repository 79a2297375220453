#include <optional>

#include "tensora/backend/cuda/loops/reduce.cuh"
#include "tensora/ops/reduce/any_all.h"
#include "tensora/ops/reduce/reduce_common.h"
#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::cuda {
namespace {

using namespace reductions;

/// Of bools, eight at a time.
template <bool every>
struct TruthOfWords : Truth<int64_t, every> {
  using typename Truth<int64_t, every>::Lane;
  TENSORA_HD Lane step(Lane lane, int64_t x) const {
    constexpr uint64_t kOnes = 0x0101010101010101, kHighest = 0x8080808080808080;
    const auto bits = static_cast<uint64_t>(x);
    const bool has_false = ((bits - kOnes) & ~bits & kHighest) != 0;
    return this->merge(lane, every ? !has_false : bits != 0);
  }
};

/// The same bools as words of eight, if all words lie within what is reduced.
std::optional<View> words_of(View view, uint32_t mask) {
  constexpr int64_t kBools = 8;
  const int last = view.dim() - 1;
  if (view.dtype != DType::boolean || last < 0 || !(mask >> last & 1)) return {};
  if (view.strides[last] != 1 || view.sizes[last] % kBools != 0 ||
      reinterpret_cast<uintptr_t>(view.data) % kBools != 0)
    return {};
  for (int d = 0; d < last; ++d) {
    if (view.strides[d] % kBools != 0) return {};
    view.strides[d] /= kBools;
  }
  view.sizes[last] /= kBools;
  view.dtype = DType::int64;
  view.update();
  return view;
}

template <bool every>
void truth_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  if (const std::optional<View> words = words_of(in, mask)) {
    const View* const ins[] = {&*words};
    KernelContext of_words = context;
    of_words.in = ins;
    return reduce(of_words, mask, TruthOfWords<every>{});
  }
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, Truth<C, every>{}); });
}

}  // namespace

void register_any_all_cuda() {
  any_op.set_kernel(DeviceType::cuda, truth_kernel<false>);
  all_op.set_kernel(DeviceType::cuda, truth_kernel<true>);
}

}  // namespace tensora::cuda
