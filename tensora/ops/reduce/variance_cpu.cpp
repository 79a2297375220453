#include "tensora/ops/reduce/variance.h"

#include <cmath>

#include "tensora/backend/cpu/reduce_functors.h"
#include "tensora/ops/reduce/reduce_common.h"

namespace tensora::cpu::TENSORA_ISA {
namespace {

template <class C>
struct Distance : Sum<C> {
  C center;
  explicit Distance(C around) : center(around) {}
  C step(C lane, C x) const { return lane + (x - center); }
};

template <class C>
struct SquaredDistance : Distance<C> {
  using Distance<C>::Distance;
  C step(C lane, C x) const { return lane + (x - this->center) * (x - this->center); }
};

// Each block gets its own mean and, in a second pass over the cached block, the squared distances
// from it; blocks are combined by the pairwise formula of Chan, Golub and LeVeque. Memory is read
// once and nothing cancels: even the mean is summed as distances from the block's first element, so
// that the variance of equal elements is exactly 0.
template <class C>
struct Variance {
  double divisor;  // n - correction
  bool root;

  struct Acc {
    double count, mean, distance;  // distance: sum of squares

    void take(const Acc& other) {
      if (other.count == 0) return;
      if (count == 0) {
        *this = other;
        return;
      }
      const double total = count + other.count, delta = other.mean - mean;
      mean += delta * other.count / total;
      distance += other.distance + delta * delta * count * other.count / total;
      count = total;
    }
    // From n elements whose distances from `first` add up to `offset` and whose squared distances
    // from `center`, which is their mean rounded to C, add up to `squares`.
    void take(double n, double first, double offset, double center, double squares) {
      const double exact = first + offset / n;
      const double rest = squares - n * (exact - center) * (exact - center);
      take({n, exact, rest < 0 ? 0 : rest});
    }
  };

  // The same in double, for floats whose distances or squares overflowed.
  static Acc wide_block(const C* x, int64_t step, int64_t n) {
    Acc acc{0, 0, 0};
    for (int64_t i = 0; i < n; ++i) {
      const double value = static_cast<double>(x[i * step]), delta = value - acc.mean;
      acc.count += 1;
      acc.mean += delta / acc.count;
      acc.distance += delta * (value - acc.mean);
    }
    return acc;
  }
  static bool overflowed(double offset, double squares) {
    return !std::isfinite(offset) || !std::isfinite(squares);
  }

  static void init(const void*, void* to, int64_t n) {
    std::fill_n(static_cast<Acc*>(to), n, Acc{0, 0, 0});
  }
  static void rows(const void*, const void* from, int64_t row_stride, int64_t rows, int64_t n,
                   int64_t, void* to) {
    for (int64_t r = 0; r < rows; ++r) {
      const C* const x = static_cast<const C*>(from) + r * row_stride;
      for (int64_t i = 0; i < n; i += kRunBlock) {
        const int64_t count = std::min(kRunBlock, n - i);
        const double size = static_cast<double>(count);
        const C first = x[i];
        const double offset = reduce_block(Distance<C>(first), x + i, count);
        const C center = static_cast<C>(first + offset / size);
        const double squares = reduce_block(SquaredDistance<C>(center), x + i, count);
        if (overflowed(offset, squares)) [[unlikely]]
          static_cast<Acc*>(to)[r].take(wide_block(x + i, 1, count));
        else
          static_cast<Acc*>(to)[r].take(size, first, offset, center, squares);
      }
    }
  }
  static void columns(const void*, const void* from, int64_t row_stride, int64_t rows, int64_t n,
                      int64_t, void* to) {
    Acc* const acc = static_cast<Acc*>(to);
    alignas(64) C offset[kReduceColumns], center[kReduceColumns], squares[kReduceColumns];
    for (int64_t r = 0; r < rows; r += kRowBlock) {
      const C* const first = static_cast<const C*>(from) + r * row_stride;
      const int64_t height = std::min(kRowBlock, rows - r);
      const C size = static_cast<C>(height);
      for (int64_t j = 0; j < n; ++j) offset[j] = 0, squares[j] = 0;
      for (int64_t i = 1; i < height; ++i) {
        const C* const x = first + i * row_stride;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) offset[j] += x[j] - first[j];
      }
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) center[j] = first[j] + offset[j] / size;
      for (int64_t i = 0; i < height; ++i) {
        const C* const x = first + i * row_stride;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) squares[j] += (x[j] - center[j]) * (x[j] - center[j]);
      }
      for (int64_t j = 0; j < n; ++j) {
        if (overflowed(offset[j], squares[j])) [[unlikely]]
          acc[j].take(wide_block(first + j, row_stride, height));
        else
          acc[j].take(size, first[j], offset[j], center[j], squares[j]);
      }
    }
  }
  static void combine(const void*, void* to, const void* from, int64_t n) {
    const Acc* const later = static_cast<const Acc*>(from);
    for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(to)[i].take(later[i]);
  }
  template <bool with_mean>
  static void finish(const void* functor, const void* from, int64_t n, void* const* out) {
    const Variance& f = *static_cast<const Variance*>(functor);
    const Acc* const acc = static_cast<const Acc*>(from);
    for (int64_t i = 0; i < n; ++i) {
      const double variance = acc[i].distance / f.divisor;
      static_cast<double*>(out[0])[i] = f.root ? std::sqrt(variance) : variance;
      if constexpr (with_mean)
        static_cast<double*>(out[1])[i] = acc[i].count == 0 ? std::nan("") : acc[i].mean;
    }
  }
  static constexpr ReduceTiles tiles(bool with_mean) {
    return {.init = init,
            .rows = rows,
            .columns = columns,
            .combine = combine,
            .finish = with_mean ? finish<true> : finish<false>,
            .compute = dtype_of<C>,
            .outputs = {kFloat64, kFloat64},
            .acc_bytes = sizeof(Acc)};
  }
};

template <bool root>
void variance_kernel(const KernelContext& context, const VarianceAttrs& attrs) {
  const View& in = context.input(0);
  const uint32_t mask = reduced_mask(attrs.dim, in.dim(), context.op);
  const double count = static_cast<double>(reduced_count(in.sizes, mask));
  visit_compute_floating(in.dtype, [&]<class C>() {
    static constexpr ReduceTiles alone = Variance<C>::tiles(false);
    static constexpr ReduceTiles both = Variance<C>::tiles(true);
    const Variance<C> functor{std::max(0.0, count - attrs.correction), root};
    run_reduction(in, mask, context.out, context.out.size() == 2 ? both : alone, &functor);
  });
}

}  // namespace

void register_variance_cpu() {
  var_op.set_kernel(DeviceType::cpu, variance_kernel<false>);
  var_mean_op.set_kernel(DeviceType::cpu, variance_kernel<false>);
  std_op.set_kernel(DeviceType::cpu, variance_kernel<true>);
  std_mean_op.set_kernel(DeviceType::cpu, variance_kernel<true>);
}

}  // namespace tensora::cpu::TENSORA_ISA
