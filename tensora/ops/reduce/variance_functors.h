#pragma once

#include "tensora/ops/reduce/sum_functors.h"

namespace tensora::reductions {

// Note [Variance in one pass]
// Parts, each with its count, mean and squared distance from the mean, are combined by the pairwise
// formula of Chan, Golub and LeVeque, in double. What remains is the part itself:
//   two looks   the mean as distances from one of the elements, so that equal elements have exactly
//               variance 0, then the squared distances from it, corrected for the mean's rounding;
//   one look    sums of distances, and of their squares, from the mean of the elements before,
//               which become part of that mean after every kRun elements. The mean is kept as a
//               distance from the first element: it has all its digits where the elements lie far
//               from zero. Where a mean of few elements is far from the next ones, digits are lost
//               in their squares, but no more than kRun of them are added up.
// One division is shared by many elements.

/// A part: its elements' number, mean and summed squared distance from the mean.
struct Moments {
  double count, mean, distance;
};

TENSORA_HD inline Moments combine_moments(Moments a, Moments b) {
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  const double total = a.count + b.count, delta = b.mean - a.mean;
  return {total, a.mean + delta * b.count / total,
          a.distance + (b.distance + delta * delta * a.count * b.count / total)};
}

/// Element by element, in double. See Note [Taken again].
struct WideVariance : Reduction {
  using Value = double;
  using Lane = Moments;
  using Acc = Moments;
  TENSORA_HD Lane lane() const { return {0, 0, 0}; }
  TENSORA_HD Lane step(Lane lane, double x) const {
    const double count = lane.count + 1, delta = x - lane.mean, mean = lane.mean + delta / count;
    return {count, mean, lane.distance + delta * (x - mean)};
  }
  TENSORA_HD Lane merge(Lane a, Lane b) const { return combine_moments(a, b); }
  TENSORA_HD Acc widen(Lane lane) const { return lane; }
};

/// The variance, or with `root` the standard deviation; output 1 is the mean.
template <class C>
struct Variance : Reduction {
  using Value = C;
  struct Lane {
    int count;
    C first, mean,
        distance;    // mean: from the first; both of all but the last count % kRun elements
    C sum, squares;  // of those, as distances from first + mean
  };
  using Acc = Moments;
  using Out = double;
  static constexpr int kOutputs = 2;
  double divisor;  // n - correction
  bool root;

  TENSORA_HD Lane lane() const { return {0, 0, 0, 0, 0, 0}; }
  TENSORA_HD Lane step(Lane lane, C x) const {
    if (lane.count == 0) lane.first = x;
    const C y = (x - lane.first) - lane.mean;
    lane.sum += y;
    lane.squares += y * y;
    if (++lane.count % kRun == 0) settle(lane, kRun);
    return lane;
  }
  TENSORA_HD Lane merge(Lane a, Lane b) const {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    settle(a, a.count % kRun);
    settle(b, b.count % kRun);
    const C count = static_cast<C>(a.count), later = static_cast<C>(b.count);
    const C share = later / (count + later), delta = (b.first - a.first) + (b.mean - a.mean);
    a.count += b.count;
    a.mean += delta * share;
    a.distance += b.distance + delta * delta * count * share;
    return a;
  }
  TENSORA_HD Acc widen(Lane lane) const {
    settle(lane, lane.count % kRun);
    return {static_cast<double>(lane.count), static_cast<double>(lane.first) + lane.mean,
            static_cast<double>(lane.distance)};
  }
  TENSORA_HD Acc combine(Acc a, Acc b) const { return combine_moments(a, b); }
  TENSORA_HD bool fits(Acc acc) const {
    return acc.distance - acc.distance == 0 && acc.mean - acc.mean == 0;  // both finite
  }
  TENSORA_HD WideVariance wide() const { return {}; }
  TENSORA_HD Variance<double> over_double() const { return {{}, divisor, root}; }
  TENSORA_HD Out finish(Acc acc) const {
    const double variance = acc.distance / divisor;
    return root ? math::sqrt(variance) : variance;
  }
  TENSORA_HD double second(Acc acc) const {
    return acc.count == 0 ? static_cast<double>(__builtin_nan("")) : acc.mean;
  }

  // See Note [Two looks].
  struct Distance : Sum<C> {
    C center;
    TENSORA_HD explicit Distance(C around) : center(around) {}
    TENSORA_HD C step(C lane, C x) const { return lane + (x - center); }
  };
  struct SquaredDistance : Sum<C> {
    C center;
    TENSORA_HD explicit SquaredDistance(C around) : center(around) {}
    TENSORA_HD C step(C lane, C x) const { return lane + (x - center) * (x - center); }
  };
  TENSORA_HD Distance first_look(C first) const { return Distance(first); }
  TENSORA_HD SquaredDistance second_look(C first, C offset, double count) const {
    return SquaredDistance(first + offset / static_cast<C>(count));
  }
  TENSORA_HD Acc of_run(C first, C offset, const SquaredDistance& look, C squares,
                        double count) const {
    const double exact = first + offset / count, error = exact - look.center;
    const double distance = squares - count * error * error;
    return {count, exact, distance < 0 ? 0 : distance};
  }

 private:
  static constexpr int kRun = 16;

  // The last `run` elements become part of mean and distance; a settled lane stays as it is.
  TENSORA_HD static void settle(Lane& lane, int run) {
    if (run == 0) return;
    const C total = static_cast<C>(lane.count), last = static_cast<C>(run);
    const C share = last / total, delta = lane.sum / last;
    const C within = lane.squares - lane.sum * delta;
    lane.mean += delta * share;
    lane.distance += (within < 0 ? C(0) : within) + delta * delta * (total - last) * share;
    lane.sum = lane.squares = 0;
  }
};

}  // namespace tensora::reductions
