#include "tensora/ops/resample/grid_sample.h"

#include <cmath>

#include "tensora/dispatch/op.h"
#include "tensora/ops/pool/pool_common.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes, places;
  std::string_view mode, padding;
  bool align_corners = false, channels_last = false;
};

double inside(double x, double n, const Sample& s) {
  if (s.padding == "zeros") return x;
  if (s.padding == "reflection") {
    const double low = s.align_corners ? 0 : -0.5, high = s.align_corners ? n - 1 : n - 0.5;
    if (low == high) return 0;
    while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
  }
  return std::min(std::max(x, 0.0), n - 1);
}

double cubic(double x) {
  const double a = -0.75;
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
}

std::vector<std::pair<double, double>> taps_of(double coordinate, double n, const Sample& s) {
  double x = s.align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  std::vector<std::pair<double, double>> taps;
  if (s.mode == "bicubic") {
    const double below = std::floor(x);
    for (int k = -1; k <= 2; ++k) taps.push_back({inside(below + k, n, s), cubic(x - below - k)});
    return taps;
  }
  x = inside(x, n, s);
  if (s.mode == "nearest") return {{std::nearbyint(x), 1}};
  const double below = std::floor(x);
  return {{below, 1 - (x - below)}, {below + 1, x - below}};
}

Array sampled(const Array& x, const Array& grid, const Sample& s) {
  const int dims = x.sizes.size() - 2;
  Shape sizes = {x.sizes[0], x.sizes[1]};
  for (int d = 0; d < dims; ++d) sizes.push_back(s.places[d]);
  Array out(sizes);
  Array::each(sizes, [&](const Shape& at) {
    double sum = 0;
    const auto mix = [&](const auto& self, int d, Shape from, double weight) -> void {
      if (d == dims) {
        sum += weight * x.at(from);
        return;
      }
      Shape place = {at[0]};
      for (int k = 0; k < dims; ++k) place.push_back(at[2 + k]);
      place.push_back(dims - 1 - d);
      const double n = static_cast<double>(x.sizes[2 + d]);
      for (const auto& [i, share] : taps_of(grid.at(place), n, s)) {
        if (i < 0 || i > n - 1) continue;
        from[2 + d] = static_cast<int64_t>(i);
        self(self, d + 1, from, weight * share);
      }
    };
    mix(mix, 0, at, 1);
    out.at(at) = sum;
  });
  return out;
}

Shape grid_sizes(const Sample& s) {
  Shape sizes = {s.sizes[0]};
  for (int64_t n : s.places) sizes.push_back(n);
  sizes.push_back(s.places.size());
  return sizes;
}

// Places that no finite difference moves over an edge between elements.
std::vector<double> places(const Sample& s) {
  std::vector<double> values;
  const int64_t count = grid_sizes(s).numel(), dims = s.places.size();
  for (int64_t i = 0; i < count; ++i) {
    const double n = static_cast<double>(s.sizes[s.sizes.size() - 1 - static_cast<int>(i % dims)]);
    const double at = std::floor(static_cast<double>(i * 7 % 11) / 11 * (n + 2)) - 1 + 0.3 +
                      0.04 * static_cast<double>(i % 5);
    values.push_back(s.align_corners ? 2 * at / (n - 1) - 1 : (2 * at + 1) / n - 1);
  }
  return values;
}

void add_affine(Cases& cases) {
  cases.add({.op = "affine_grid",
             .name = "2-D",
             .inputs = {{{2, 2, 3}}},
             .run =
                 [](In x) {
                   return one(affine_grid(x[0], {2, 1, 2, 3}, false));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{2, 2, 3, 2});
                   Array::each(out.sizes, [&](const Shape& at) {
                     const double px = (2.0 * static_cast<double>(at[2]) + 1) / 3 - 1;
                     const double py = (2.0 * static_cast<double>(at[1]) + 1) / 2 - 1;
                     out.at(at) = x[0].at({at[0], at[3], 0}) * px +
                                  x[0].at({at[0], at[3], 1}) * py + x[0].at({at[0], at[3], 2});
                   });
                   return one(out);
                 },
             .tolerance = 4});
  cases.add({.op = "affine_grid",
             .name = "3-D, corners",
             .inputs = {{{1, 3, 4}}},
             .run =
                 [](In x) {
                   return one(affine_grid(x[0], {1, 1, 1, 2, 3}, true));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{1, 1, 2, 3, 3});
                   Array::each(out.sizes, [&](const Shape& at) {
                     const double px = static_cast<double>(at[3]) - 1;
                     const double py = 2 * static_cast<double>(at[2]) - 1;
                     out.at(at) = x[0].at({0, at[4], 0}) * px + x[0].at({0, at[4], 1}) * py +
                                  x[0].at({0, at[4], 3});
                   });
                   return one(out);
                 },
             .tolerance = 4});
}

void add_errors(Cases& cases) {
  const auto x = [] { return zeros({1, 2, 4, 4}); };
  cases.error("grid_sample", "last dim", "the last dim of grid must have size 2", [=] {
    grid_sample(x(), zeros({1, 2, 2, 3}));
  });
  cases.error("grid_sample", "batch", "grid and input must have the same batch, got 2 and 1", [=] {
    grid_sample(x(), zeros({2, 2, 2, 2}));
  });
  cases.error("grid_sample", "mode", "mode must be 'bilinear', 'nearest' or 'bicubic', got 'x'",
              [=] {
                grid_sample(x(), zeros({1, 2, 2, 2}), "x");
              });
  cases.error("grid_sample", "dtypes", "expected one floating-point dtype", [=] {
    grid_sample(x(), zeros({1, 2, 2, 2}, {.dtype = kFloat64}));
  });
  cases.error("affine_grid", "theta", "theta must have shape [1, 2, 3]", [] {
    affine_grid(zeros({1, 2, 4}), {1, 1, 2, 2});
  });
}

}  // namespace

void grid_sample_cases(Cases& cases) {
  const Sample samples[] = {
      {"bilinear", {2, 3, 4, 5}, {3, 2}, "bilinear", "zeros"},
      {"bilinear, border", {1, 2, 4, 5}, {2, 4}, "bilinear", "border", true},
      {"bilinear, reflection", {1, 2, 4, 5}, {2, 4}, "bilinear", "reflection"},
      {"bilinear, reflection, corners", {1, 1, 4, 5}, {3, 3}, "bilinear", "reflection", true},
      {"bilinear, channels last", {1, 5, 3, 4}, {3, 2}, "bilinear", "zeros", false, true},
      {"nearest", {1, 2, 4, 5}, {3, 3}, "nearest", "zeros"},
      {"nearest, reflection", {1, 2, 4, 5}, {3, 3}, "nearest", "reflection"},
      {"bicubic", {1, 2, 4, 5}, {3, 2}, "bicubic", "zeros"},
      {"bicubic, border", {1, 1, 4, 5}, {2, 3}, "bicubic", "border", true},
      {"bicubic, reflection", {1, 1, 4, 5}, {2, 3}, "bicubic", "reflection"},
      {"3-D", {1, 2, 3, 4, 2}, {2, 1, 3}, "bilinear", "zeros"},
      {"3-D, border", {1, 1, 3, 4, 2}, {1, 2, 3}, "bilinear", "border", true},
      {"3-D, nearest", {1, 2, 3, 4, 2}, {2, 1, 3}, "nearest", "zeros"},
      {"many places", {1, 1, 5, 6}, {13, 12}, "bilinear", "zeros"},
      {"no places", {1, 1, 5, 6}, {0, 3}, "bilinear", "zeros"},
  };
  for (const Sample& sample : samples)
    cases.add({.op = "grid_sample",
               .name = sample.name,
               .inputs = {{sample.sizes}, {.sizes = grid_sizes(sample), .values = places(sample)}},
               .run =
                   [=](In x) {
                     return one(grid_sample(pool::in_layout(x[0], sample.channels_last), x[1],
                                            sample.mode, sample.padding, sample.align_corners));
                   },
               .reference = [=](Arrays x) { return one(sampled(x[0], x[1], sample)); },
               .tolerance = 30});
  cases.add(
      {.op = "grid_sample_backward",
       .name = "between two",
       .inputs = {{{1, 1, 1, 1}}, {{1, 1, 1, 2}}, {.sizes = {1, 1, 1, 2}, .values = {0.25, 0}}},
       .run =
           [](In x) {
             GridSampleAttrs attrs;
             attrs.align_corners = true;
             const Tensors both = apply_all(grid_sample_backward_op, {x[0], x[1], x[2]}, attrs);
             return Out{both[0], both[1]};
           },
       .reference =
           [](Arrays x) {
             const double g = x[0][0], t = (x[2][0] + 1) / 2;
             Array input(Shape{1, 1, 1, 2}), grid(Shape{1, 1, 1, 2});
             input[0] = g * (1 - t);
             input[1] = g * t;
             grid[0] = g * (x[1][1] - x[1][0]) / 2;
             return ArrayList{input, grid};
           }});
  add_affine(cases);
  add_errors(cases);
}

}  // namespace tensora::suite
