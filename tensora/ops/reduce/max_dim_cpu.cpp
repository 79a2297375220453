// Widest instruction set: AVX2. See Note [One kernel, several instruction sets].
#include "tensora/ops/reduce/max_dim.h"

#include "tensora/backend/cpu/reduce.h"
#include "tensora/ops/reduce/extremum_functors.h"
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

// The tiles of reductions::Chosen.
template <class F>
struct ChosenTiles {
  using C = typename F::Value;
  using Best = typename F::Best;
  using Acc = typename F::Acc;
  // As wide as the values, so that both are selected by one mask.
  using Index = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;

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
      for (int64_t j = 0; j < n; ++j)
        acc[j] = F().combine(acc[j], {value[j], index + r + position[j]});
    }
  }
  static constexpr ReduceTiles tiles() {
    return {.init = init_tile<F>,
            .rows = rows,
            .columns = columns,
            .combine = combine_tile<F>,
            .finish = finish_tile<F>,
            .compute = dtype_of<C>,
            .outputs = {dtype_of<typename F::Out>, kInt64},
            .acc_bytes = sizeof(Acc),
            .indexed = true};
  }
};

template <bool largest>
void chosen_kernel(const KernelContext& context, const DimAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim ? Dims{*attrs.dim} : Dims{}, in.dim(), context.op);
  const auto run = [&]<class F>(const F& functor) {
    static constexpr ReduceTiles tiles = ChosenTiles<F>::tiles();
    run_reduction(in, mask, context.out, tiles, &functor);
  };
  visit_compute(in.dtype, [&]<class C>() {
    if (context.out.size() == 2)
      run(reductions::Chosen<C, largest, true>{});
    else
      run(reductions::Chosen<C, largest, false>{});
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
