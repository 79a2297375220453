#include "tensora/optim/strong_wolfe.h"

#include <algorithm>
#include <cmath>

namespace tensora::optim {
namespace {

constexpr double kDecrease = 1e-4, kCurvature = 0.9, kTolerance = 1e-9;

// The minimum of the cubic through two points and their slopes, kept within bounds.
double cubic_minimum(const LinePoint& a, const LinePoint& b, double low, double high) {
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double minimum =
      a.t <= b.t ? b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
                 : a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2));
  return std::min(std::max(minimum, low), high);
}

class Search {
 public:
  Search(const std::function<LinePoint(double)>& evaluate, const LinePoint& start,
         double direction_size, int64_t limit)
      : evaluate_(evaluate), start_(start), direction_size_(direction_size), limit_(limit) {}

  LineSearchResult run(double t) {
    bracket(t);
    low_ = ends_[0].loss <= ends_[last_].loss ? 0 : 1;
    while (!done_ && iterations_ < limit_ && wide()) zoom();
    return {ends_[last_ == 0 ? 0 : low_], evaluations_};
  }

 private:
  LinePoint at(double t) {
    ++evaluations_;
    return evaluate_(t);
  }
  bool falls_enough(const LinePoint& p) const {
    return p.loss <= start_.loss + kDecrease * p.t * start_.slope;
  }
  bool is_flat(const LinePoint& p) const { return std::abs(p.slope) <= -kCurvature * start_.slope; }
  bool wide() const { return std::abs(ends_[1].t - ends_[0].t) * direction_size_ >= kTolerance; }

  // Steps out until the point, or an interval that contains one, is found.
  void bracket(double t) {
    LinePoint before = start_, now = at(t);
    before.t = 0;
    for (; iterations_ < limit_; ++iterations_) {
      if (!falls_enough(now) || (iterations_ > 1 && now.loss >= before.loss))
        return set(before, now);
      if (is_flat(now)) {
        ends_[0] = now;
        last_ = 0;
        done_ = true;
        return;
      }
      if (now.slope >= 0) return set(before, now);
      const double next = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
      before = now;
      now = at(next);
    }
    LinePoint origin = start_;
    origin.t = 0;
    set(origin, now);
  }
  void set(const LinePoint& a, const LinePoint& b) {
    ends_[0] = a;
    ends_[1] = b;
  }

  // Replaces one end of the interval by a point within it.
  void zoom() {
    const double least = std::min(ends_[0].t, ends_[1].t), most = std::max(ends_[0].t, ends_[1].t);
    double t = cubic_minimum(ends_[0], ends_[1], least, most);
    const double margin = 0.1 * (most - least);
    if (std::min(most - t, t - least) < margin) {  // too near to an end, twice: move away from it
      if (stalled_ || t >= most || t <= least) {
        t = std::abs(t - most) < std::abs(t - least) ? most - margin : least + margin;
        stalled_ = false;
      } else {
        stalled_ = true;
      }
    } else {
      stalled_ = false;
    }
    const LinePoint now = at(t);
    ++iterations_;
    const int high = 1 - low_;
    if (!falls_enough(now) || now.loss >= ends_[low_].loss) {
      ends_[high] = now;
      low_ = ends_[0].loss <= ends_[1].loss ? 0 : 1;
      return;
    }
    if (is_flat(now))
      done_ = true;
    else if (now.slope * (ends_[high].t - ends_[low_].t) >= 0)
      ends_[high] = ends_[low_];
    ends_[low_] = now;
  }

  const std::function<LinePoint(double)>& evaluate_;
  const LinePoint& start_;
  double direction_size_;
  int64_t limit_, iterations_ = 0, evaluations_ = 0;
  LinePoint ends_[2];
  int last_ = 1, low_ = 0;
  bool done_ = false, stalled_ = false;
};

}  // namespace

LineSearchResult strong_wolfe(const std::function<LinePoint(double t)>& evaluate,
                              const LinePoint& start, double t, double direction_size,
                              int64_t max_evaluations) {
  return Search(evaluate, start, direction_size, max_evaluations).run(t);
}

}  // namespace tensora::optim
