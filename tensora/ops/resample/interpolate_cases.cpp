#include "tensora/ops/resample/bands.h"
#include "tensora/ops/resample/interpolate.h"

#include <algorithm>
#include <cmath>

#include "tensora/dispatch/op.h"
#include "tensora/ops/pool/pool_common.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes, out;
  std::string_view mode;
  bool align_corners = false, antialias = false, channels_last = false;
  double scale = 0;  // given instead of `out`
};

using Taps = std::vector<std::pair<int64_t, double>>;

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

Taps antialiased(const Sample& s, double step, int64_t o, int64_t in) {
  const double radius = (s.mode == "bicubic" ? 2 : 1) * std::max(step, 1.0);
  const double center = step * (static_cast<double>(o) + 0.5);
  Taps taps;
  double total = 0;
  for (int64_t i = 0; i < in; ++i) {
    const double x = (static_cast<double>(i) + 0.5 - center) / std::max(step, 1.0);
    if (std::abs(static_cast<double>(i) + 0.5 - center) > radius) continue;
    const double weight = s.mode == "bicubic" ? cubic(x, -0.5) : std::max(0.0, 1 - std::abs(x));
    taps.push_back({i, weight});
    total += weight;
  }
  for (auto& tap : taps) tap.second /= total;
  return taps;
}

// From which inputs, with which weights, output `o` of a dim is mixed.
Taps taps_of(const Sample& s, int64_t o, int64_t in, int64_t out) {
  const auto inside = [&](double at) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)), 0, in - 1);
  };
  double step = s.scale > 0 ? 1 / s.scale : static_cast<double>(in) / static_cast<double>(out);
  const double at = static_cast<double>(o);
  if (s.mode == "nearest") return {{inside(at * step), 1}};
  if (s.mode == "nearest-exact") return {{inside((at + 0.5) * step), 1}};
  if (s.align_corners)
    step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  if (s.antialias) return antialiased(s, step, o, in);
  double source = s.align_corners ? at * step : (at + 0.5) * step - 0.5;
  const bool is_cubic = s.mode == "bicubic";
  if (!is_cubic) source = std::max(source, 0.0);
  const double below = std::floor(source);
  Taps taps;
  for (int k = is_cubic ? -1 : 0; k <= (is_cubic ? 2 : 1); ++k) {
    const double x = source - below - k;
    taps.push_back({inside(below + k), is_cubic ? cubic(x, -0.75) : 1 - std::abs(x)});
  }
  return taps;
}

Array resized(const Array& x, const Sample& s) {
  Shape sizes = x.sizes;
  const int dims = sizes.size() - 2;
  for (int d = 0; d < dims; ++d)
    sizes[2 + d] = s.scale > 0 ? static_cast<int64_t>(static_cast<double>(sizes[2 + d]) * s.scale)
                               : s.out[s.out.size() == 1 ? 0 : d];
  Array result(sizes);
  Array::each(sizes, [&](const Shape& at) {
    double sum = 0;
    const auto mix = [&](const auto& self, int d, Shape from, double weight) -> void {
      if (d == dims) {
        sum += weight * x.at(from);
        return;
      }
      for (const auto& [i, share] : taps_of(s, at[2 + d], x.sizes[2 + d], sizes[2 + d])) {
        from[2 + d] = i;
        self(self, d + 1, from, weight * share);
      }
    };
    mix(mix, 0, at, 1);
    result.at(at) = sum;
  });
  return result;
}

Tensor run_sample(const Tensor& x, const Sample& s) {
  const Tensor input = pool::in_layout(x, s.channels_last);
  const std::optional<bool> align =
      s.align_corners ? std::optional<bool>(true) : std::optional<bool>();
  if (s.scale > 0)
    return interpolate(input, {}, std::vector<double>{s.scale}, s.mode, align, {}, s.antialias);
  return interpolate(input, s.out, {}, s.mode, align, {}, s.antialias);
}

void add_area(Cases& cases) {
  cases.add({.op = "interpolate",
             .name = "area",
             .inputs = {{{1, 2, 4}}},
             .run = [](In x) { return one(interpolate(x[0], Shape{2}, {}, "area")); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{1, 2, 2});
                   for (int64_t i = 0; i < 4; ++i) out[i] = (x[0][2 * i] + x[0][2 * i + 1]) / 2;
                   return one(out);
                 }});
  cases.add({.op = "resize_backward",
             .name = "twice the size",
             .inputs = {{{1, 1, 6}}},
             .run =
                 [](In x) {
                   ResizeBackwardAttrs attrs;
                   attrs.output_size = {6};
                   attrs.sizes = {1, 1, 3};
                   return one(apply(resize_backward_op, {x[0]}, attrs));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{1, 1, 3});
                   for (int64_t i = 0; i < 6; ++i) out[i / 2] += x[0][i];
                   return one(out);
                 }});
}

void add_bytes(Cases& cases) {
  const Sample bytes{"", {1, 2, 3, 4}, {6, 3}, "nearest"};
  cases.add({.op = "resize",
             .name = "bytes",
             .inputs = {{.sizes = {1, 2, 3, 4}, .low = 0, .high = 255}},
             .run = [=](In x) { return one(run_sample(x[0], bytes)); },
             .reference = [=](Arrays x) { return one(resized(x[0], bytes)); },
             .dtypes = {kUInt8}});
  cases.add({.op = "resize",
             .name = "bytes, rounded after each dim",
             .inputs = {{.sizes = {1, 1, 2, 2}, .values = {0, 100, 200, 255}}},
             .run =
                 [](In x) {
                   return one(interpolate(x[0], Shape{3, 3}, {}, "bilinear", true));
                 },
             .reference =
                 [](Arrays) {
                   Array out(Shape{1, 1, 3, 3});
                   out.values = {0, 50, 100, 100, 139, 178, 200, 228, 255};
                   return one(out);
                 },
             .dtypes = {kUInt8},
             .opt_out = {{Mode::view, "the reference belongs to the listed values"}}});
}

}  // namespace

void interpolate_cases(Cases& cases) {
  const Sample samples[] = {
      {"nearest 1-D", {2, 2, 5}, {7}, "nearest"},
      {"nearest 2-D", {1, 2, 3, 4}, {6, 3}, "nearest"},
      {"nearest by a factor", {1, 1, 5, 4}, {}, "nearest", false, false, false, 1.75},
      {"nearest-exact", {1, 2, 5, 4}, {3, 9}, "nearest-exact"},
      {"nearest 3-D, channels last", {1, 3, 2, 3, 2}, {4, 2, 3}, "nearest", false, false, true},
      {"linear", {2, 1, 4}, {7}, "linear"},
      {"bilinear", {1, 2, 3, 4}, {5, 7}, "bilinear"},
      {"bilinear, smaller", {1, 2, 9, 8}, {4, 3}, "bilinear"},
      {"bilinear, much smaller", {1, 1, 3, 40}, {2, 3}, "bilinear"},
      {"bilinear, corners", {1, 2, 3, 4}, {6, 1}, "bilinear", true},
      {"bilinear, channels last", {2, 5, 3, 4}, {5, 6}, "bilinear", false, false, true},
      {"bilinear by a factor", {1, 1, 5, 4}, {}, "bilinear", false, false, false, 1.3},
      {"bilinear, antialias", {1, 2, 9, 8}, {4, 11}, "bilinear", false, true},
      {"bilinear, antialias, to one column", {1, 2, 5, 6}, {8, 1}, "bilinear", true, true},
      {"trilinear", {1, 2, 2, 3, 4}, {3, 4, 7}, "trilinear"},
      {"bicubic", {1, 2, 5, 4}, {7, 3}, "bicubic"},
      {"bicubic, corners, channels last", {1, 2, 5, 4}, {7, 3}, "bicubic", true, false, true},
      {"bicubic, small", {1, 1, 1, 2}, {3, 5}, "bicubic"},
      {"bicubic, antialias", {1, 1, 9, 8}, {4, 11}, "bicubic", false, true},
      {"no batch", {0, 2, 3, 4}, {5, 7}, "bilinear"},
      {"large", {2, 2, 40, 33}, {70, 65}, "bilinear"},
  };
  for (const Sample& sample : samples)
    cases.add({.op = "resize",
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [=](In x) { return one(run_sample(x[0], sample)); },
               .reference = [=](Arrays x) { return one(resized(x[0], sample)); },
               .tolerance = 4,
               .opt_out = sample.sizes.numel() > 2000
                              ? std::map<Mode, std::string>{{Mode::grad, "is large"}}
                              : std::map<Mode, std::string>{}});
  add_bytes(cases);
  add_area(cases);
  const auto x = [] { return zeros({1, 2, 4, 4}); };
  cases.error("interpolate", "neither", "give either size or scale_factor, not neither",
              [=] { interpolate(x()); });
  cases.error("interpolate", "both", "give either size or scale_factor, not both",
              [=] { interpolate(x(), Shape{3}, std::vector<double>{2}); });
  cases.error("interpolate", "mode", "unknown mode 'cubic'",
              [=] { interpolate(x(), Shape{3}, {}, "cubic"); });
  cases.error("interpolate", "dims", "mode linear needs an input of 3 dims",
              [=] { interpolate(x(), Shape{3}, {}, "linear"); });
  cases.error("interpolate", "align_corners", "align_corners is for linear",
              [=] { interpolate(x(), Shape{3}, {}, "nearest", true); });
  cases.error("interpolate", "no size", "interpolate: output sizes must be positive", [=] {
    interpolate(x(), Shape{0, 3});
  });
  cases.error("interpolate", "recompute", "recompute_scale_factor needs a scale_factor",
              [=] { interpolate(x(), Shape{3}, {}, "nearest", {}, true); });
  cases.error("interpolate", "antialias", "antialias is for bilinear and bicubic",
              [=] { interpolate(x(), Shape{3}, {}, "nearest", {}, {}, true); });
  cases.error("interpolate", "integers", "expected a floating-point dtype", [] {
    interpolate(zeros({1, 1, 2}, {.dtype = kInt32}), Shape{3});
  });
}

}  // namespace tensora::suite
