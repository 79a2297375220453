#include "tensora/ops/reduce/max_dim.h"

#include "tensora/backend/cpu/reduce_functors.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

constexpr int64_t kSearchBlock = 1024;

// The position of the first element equal to `wanted` (NaN equals NaN here), which is there.
template <class C>
int64_t find_first(const C* x, int64_t n, C wanted) {
  const auto matches = [&](C value) {
    return (value == wanted) | ((value != value) & (wanted != wanted));
  };
  constexpr int64_t step = 64;
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    int hits = 0;
#pragma omp simd reduction(| : hits)
    for (int64_t j = 0; j < step; ++j) hits |= matches(x[i + j]);
    if (hits) break;
  }
  while (!matches(x[i])) ++i;
  return i;
}

// The extremum with its position.
template <class C, bool largest>
struct Chosen {
  using Best = Extremum<C, largest>;
  struct Acc {
    C value;
    int64_t index;  // -1: nothing seen yet

    void take(C other, int64_t position) {
      if (index < 0 || Best::replaces(other, value)) *this = {other, position};
    }
  };
  // As wide as the values, so that both are selected by one mask.
  using Index = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;

  static void init(const void*, void* to, int64_t n) {
    std::fill_n(static_cast<Acc*>(to), n, Acc{C(0), -1});
  }
  // The value first, by the vectorised loop; its position is looked up only where a block improves.
  static void rows(const void*, const void* from, int64_t row_stride, int64_t rows, int64_t n,
                   int64_t index, void* to) {
    for (int64_t r = 0; r < rows; ++r) {
      const C* const x = static_cast<const C*>(from) + r * row_stride;
      Acc acc = static_cast<Acc*>(to)[r];
      for (int64_t i = 0; i < n; i += kSearchBlock) {
        const int64_t count = std::min(kSearchBlock, n - i);
        const C best = reduce_block(Best(), x + i, count);
        if (acc.index < 0 || Best::replaces(best, acc.value))
          acc = {best, index + i + find_first(x + i, count, best)};
      }
      static_cast<Acc*>(to)[r] = acc;
    }
  }
  static void columns(const void*, const void* from, int64_t row_stride, int64_t rows, int64_t n,
                      int64_t index, void* to) {
    constexpr int64_t height = 256;
    Acc* const acc = static_cast<Acc*>(to);
    alignas(64) C value[kReduceColumns];
    alignas(64) Index position[kReduceColumns];
    for (int64_t r = 0; r < rows; r += height) {
      const C* x = static_cast<const C*>(from) + r * row_stride;
      for (int64_t j = 0; j < n; ++j) value[j] = x[j], position[j] = 0;
      const Index end = static_cast<Index>(std::min(height, rows - r));
      for (Index i = 1; i < end; ++i) {
        x += row_stride;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) {
          const bool better = Best::replaces(x[j], value[j]);
          value[j] = better ? x[j] : value[j];
          position[j] = better ? i : position[j];
        }
      }
      for (int64_t j = 0; j < n; ++j) acc[j].take(value[j], index + r + position[j]);
    }
  }
  static void combine(const void*, void* to, const void* from, int64_t n) {
    const Acc* const later = static_cast<const Acc*>(from);
    for (int64_t i = 0; i < n; ++i)
      if (later[i].index >= 0) static_cast<Acc*>(to)[i].take(later[i].value, later[i].index);
  }
  static void finish_both(const void*, const void* from, int64_t n, void* const* out) {
    const Acc* const acc = static_cast<const Acc*>(from);
    for (int64_t i = 0; i < n; ++i) static_cast<C*>(out[0])[i] = acc[i].value;
    for (int64_t i = 0; i < n; ++i) static_cast<int64_t*>(out[1])[i] = acc[i].index;
  }
  static void finish_index(const void*, const void* from, int64_t n, void* const* out) {
    const Acc* const acc = static_cast<const Acc*>(from);
    for (int64_t i = 0; i < n; ++i) static_cast<int64_t*>(out[0])[i] = acc[i].index;
  }
  static constexpr ReduceTiles tiles(bool with_values) {
    return {.init = init,
            .rows = rows,
            .columns = columns,
            .combine = combine,
            .finish = with_values ? finish_both : finish_index,
            .compute = dtype_of<C>,
            .outputs = {with_values ? dtype_of<C> : kInt64, kInt64},
            .acc_bytes = sizeof(Acc),
            .indexed = true};
  }
};

template <bool largest>
void chosen_kernel(const KernelContext& context, const DimAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim ? Dims{*attrs.dim} : Dims{}, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() {
    static constexpr ReduceTiles both = Chosen<C, largest>::tiles(true);
    static constexpr ReduceTiles index = Chosen<C, largest>::tiles(false);
    run_reduction(in, mask, context.out, context.out.size() == 2 ? both : index, nullptr);
  });
}

}  // namespace

void register_max_dim_cpu() {
  for (const OpDef<DimAttrs>* op : {&max_dim_op, &argmax_op})
    op->set_kernel(DeviceType::cpu, chosen_kernel<true>);
  for (const OpDef<DimAttrs>* op : {&min_dim_op, &argmin_op})
    op->set_kernel(DeviceType::cpu, chosen_kernel<false>);
}

}  // namespace tensora::cpu::TENSORA_ISA
