#pragma once

// Internal header: what the cases of ops on sorted lines share.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/suite/cases.h"

namespace tensora::suite {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

using Line = std::vector<double>;

/// The positions of a line's elements in ascending (descending) order; NaN is the largest, equal
/// elements keep their order.
inline std::vector<int64_t> ordered(const Line& line, bool descending) {
  std::vector<int64_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  const auto less = [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double a = line[static_cast<size_t>(i)], b = line[static_cast<size_t>(j)];
    return descending ? less(b, a) : less(a, b);
  });
  return order;
}

/// Replaces each line of `x` along `dim` by what `body` makes of it, `size` values.
inline Array map_lines(const Array& x, int64_t dim, int64_t size,
                       const std::function<Line(const Line&)>& body) {
  if (x.sizes.empty()) return Array({}, body(x.values)[0]);
  const int d = static_cast<int>(dim < 0 ? dim + x.sizes.size() : dim);
  Shape sizes = x.sizes, lines = x.sizes;
  sizes[d] = size;
  lines[d] = 1;
  Array result(sizes);
  Array::each(lines, [&](const Shape& start) {
    Line line;
    Shape at = start;
    for (int64_t i = 0; i < x.sizes[d]; ++i) {
      at[d] = i;
      line.push_back(x.at(at));
    }
    const Line values = body(line);
    for (int64_t i = 0; i < size; ++i) {
      at[d] = i;
      result.at(at) = values[static_cast<size_t>(i)];
    }
  });
  return result;
}

/// `count` positions of each line, chosen by `choose`: the elements there, and the positions.
inline ArrayList chosen_of_lines(const Array& x, int64_t dim, int64_t count,
                                 const std::function<std::vector<int64_t>(const Line&)>& choose) {
  return {map_lines(x, dim, count,
                    [&](const Line& line) {
                      Line values;
                      for (int64_t i : choose(line)) values.push_back(line[static_cast<size_t>(i)]);
                      return values;
                    }),
          map_lines(x, dim, count, [&](const Line& line) {
            const auto positions = choose(line);
            return Line(positions.begin(), positions.end());
          })};
}

}  // namespace tensora::suite
