#include "tensora/ops/reduce/logsumexp.h"

#include <cmath>

#include "tensora/backend/cpu/reduce_functors.h"
#include "tensora/base/math.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

// What is subtracted before exp: the maximum, but an infinite one would make NaN of itself.
template <class C>
C shift_for(C maximum) {
  return std::isinf(maximum) ? C(0) : maximum;
}

template <class C>
struct ShiftedExp : Sum<C> {
  C shift;
  explicit ShiftedExp(C by) : shift(by) {}
  C step(C lane, C x) const { return lane + math::exp(x - shift); }
};

// A block is read from memory once: first its maximum, then, from cache, the exponentials.
template <class C>
struct LogSumExp {
  using Highest = Extremum<C, true>;
  struct Acc {
    C maximum;
    double sum;  // of exp(x - shift_for(maximum))

    void take(const Acc& other) {
      const C joint = Highest().step(maximum, other.maximum);
      const double shift = shift_for(joint);
      sum = rescaled(shift) + other.rescaled(shift);
      maximum = joint;
    }
    // Nothing stays nothing, however far the shift moves.
    double rescaled(double shift) const {
      return sum == 0 ? 0 : sum * std::exp(shift_for(maximum) - shift);
    }
  };

  static void init(const void*, void* to, int64_t n) {
    std::fill_n(static_cast<Acc*>(to), n, Acc{Highest().lane(), 0});
  }
  static void rows(const void*, const void* from, int64_t row_stride, int64_t rows, int64_t n,
                   int64_t, void* to) {
    for (int64_t r = 0; r < rows; ++r) {
      const C* const x = static_cast<const C*>(from) + r * row_stride;
      Acc& acc = static_cast<Acc*>(to)[r];
      for (int64_t i = 0; i < n; i += kRunBlock) {
        const int64_t count = std::min(kRunBlock, n - i);
        const C maximum = reduce_block(Highest(), x + i, count);
        const ShiftedExp<C> shifted(shift_for(maximum));
        acc.take({maximum, reduce_block(shifted, x + i, count)});
      }
    }
  }
  static void columns(const void*, const void* from, int64_t row_stride, int64_t rows, int64_t n,
                      int64_t, void* to) {
    Acc* const acc = static_cast<Acc*>(to);
    alignas(64) C maximum[kReduceColumns], shift[kReduceColumns], sum[kReduceColumns];
    for (int64_t r = 0; r < rows; r += kRowBlock) {
      const C* const x = static_cast<const C*>(from) + r * row_stride;
      const int64_t height = std::min(kRowBlock, rows - r);
      for (int64_t j = 0; j < n; ++j) maximum[j] = Highest().lane(), sum[j] = 0;
      for (int64_t i = 0; i < height; ++i) {
        const C* const row = x + i * row_stride;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) maximum[j] = Highest().step(maximum[j], row[j]);
      }
      for (int64_t j = 0; j < n; ++j) shift[j] = shift_for(maximum[j]);
      for (int64_t i = 0; i < height; ++i) {
        const C* const row = x + i * row_stride;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) sum[j] += math::exp(row[j] - shift[j]);
      }
      for (int64_t j = 0; j < n; ++j) acc[j].take({maximum[j], sum[j]});
    }
  }
  static void combine(const void*, void* to, const void* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(to)[i].take(static_cast<const Acc*>(from)[i]);
  }
  static void finish(const void*, const void* from, int64_t n, void* const* out) {
    const Acc* const acc = static_cast<const Acc*>(from);
    double* const to = static_cast<double*>(out[0]);
    for (int64_t i = 0; i < n; ++i) to[i] = acc[i].sum;
    map_in_full_vectors(to, n, [](double sum) { return math::log(sum); });
    for (int64_t i = 0; i < n; ++i) to[i] += shift_for(acc[i].maximum);
  }
  static constexpr ReduceTiles tiles() {
    return {.init = init,
            .rows = rows,
            .columns = columns,
            .combine = combine,
            .finish = finish,
            .compute = dtype_of<C>,
            .outputs = {kFloat64, {}},
            .acc_bytes = sizeof(Acc)};
  }
};

void logsumexp_kernel(const KernelContext& context, const ReduceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  visit_compute_floating(context.output().dtype, [&]<class C>() {
    static constexpr ReduceTiles tiles = LogSumExp<C>::tiles();
    run_reduction(in, mask, context.out, tiles, nullptr);
  });
}

}  // namespace

void register_logsumexp_cpu() { logsumexp_op.set_kernel(DeviceType::cpu, logsumexp_kernel); }

}  // namespace tensora::cpu::TENSORA_ISA
