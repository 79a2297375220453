#include "tensora/ops/reduce/amax.h"

#include "tensora/backend/cpu/reduce_functors.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// Two reductions of the same elements: each block is read from memory once and twice from cache.
template <class C>
struct MinMax {
  using Value = C;
  struct Acc {
    C low, high;
  };
  using Low = Extremum<C, false>;
  using High = Extremum<C, true>;

  static void init(const void*, void* to, int64_t n) {
    std::fill_n(static_cast<Acc*>(to), n, Acc{Low().lane(), High().lane()});
  }
  static void rows(const void*, const void* from, int64_t row_stride, int64_t rows, int64_t n,
                   int64_t, void* to) {
    for (int64_t r = 0; r < rows; ++r) {
      const C* x = static_cast<const C*>(from) + r * row_stride;
      Acc& acc = static_cast<Acc*>(to)[r];
      for (int64_t i = 0; i < n; i += kRunBlock) {
        const int64_t count = std::min(kRunBlock, n - i);
        acc.low = Low().step(acc.low, reduce_block(Low(), x + i, count));
        acc.high = High().step(acc.high, reduce_block(High(), x + i, count));
      }
    }
  }
  static void columns(const void*, const void* from, int64_t row_stride, int64_t rows, int64_t n,
                      int64_t, void* to) {
    Acc* const acc = static_cast<Acc*>(to);
    alignas(64) C low[kReduceColumns], high[kReduceColumns];
    for (int64_t j = 0; j < n; ++j) low[j] = acc[j].low, high[j] = acc[j].high;
    for (int64_t r = 0; r < rows; ++r) {
      const C* x = static_cast<const C*>(from) + r * row_stride;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        low[j] = Low().step(low[j], x[j]);
        high[j] = High().step(high[j], x[j]);
      }
    }
    for (int64_t j = 0; j < n; ++j) acc[j] = {low[j], high[j]};
  }
  static void combine(const void*, void* to, const void* from, int64_t n) {
    Acc* const acc = static_cast<Acc*>(to);
    const Acc* const later = static_cast<const Acc*>(from);
    for (int64_t i = 0; i < n; ++i)
      acc[i] = {Low().step(acc[i].low, later[i].low), High().step(acc[i].high, later[i].high)};
  }
  static void finish(const void*, const void* from, int64_t n, void* const* out) {
    const Acc* const acc = static_cast<const Acc*>(from);
    C *const low = static_cast<C*>(out[0]), *const high = static_cast<C*>(out[1]);
    for (int64_t i = 0; i < n; ++i) low[i] = acc[i].low, high[i] = acc[i].high;
  }
  static constexpr ReduceTiles tiles() {
    return {.init = init,
            .rows = rows,
            .columns = columns,
            .combine = combine,
            .finish = finish,
            .compute = dtype_of<C>,
            .outputs = {dtype_of<C>, dtype_of<C>},
            .acc_bytes = sizeof(Acc)};
  }
};

template <bool largest>
void extremum_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() { reduce(context, mask, Extremum<C, largest>{}); });
}

void aminmax_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute(in.dtype, [&]<class C>() {
    static constexpr ReduceTiles tiles = MinMax<C>::tiles();
    run_reduction(in, mask, context.out, tiles, nullptr);
  });
}

}  // namespace

void register_amax_cpu() {
  amax_op.set_kernel(DeviceType::cpu, extremum_kernel<true>);
  amin_op.set_kernel(DeviceType::cpu, extremum_kernel<false>);
  max_op.set_kernel(DeviceType::cpu, extremum_kernel<true>);
  min_op.set_kernel(DeviceType::cpu, extremum_kernel<false>);
  aminmax_op.set_kernel(DeviceType::cpu, aminmax_kernel);
}

}  // namespace tensora::cpu::TENSORA_ISA
