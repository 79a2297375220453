#include "tensora/ops/pool/max_pool.h"

#include <cmath>
#include <limits>

#include "tensora/dispatch/op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;
  Shape kernel, stride, padding, dilation;
  bool ceil_mode = false;
  bool channels_last = false;
};

// Distinct values, so that finite differences meet no ties.
std::vector<double> distinct(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(i * 37 % 101) / 16 + static_cast<double>(i / 101) * 8 - 3);
  return values;
}

// The definition, over windows that begin(o) and end(o) give for each of the last dims.
struct Bounds {
  int64_t begin, end, step;
};
template <class Window>
ArrayList largest(const Array& x, const Shape& pooled, const Window& window) {
  const int dims = pooled.size(), lead = x.sizes.size() - dims;
  Shape sizes = x.sizes;
  for (int d = 0; d < dims; ++d) sizes[lead + d] = pooled[d];
  Array values(sizes), places(sizes);
  Array::each(sizes, [&](const Shape& at) {
    double best = -std::numeric_limits<double>::infinity();
    int64_t chosen = -1;
    const auto scan = [&](const auto& self, int d, Shape from, int64_t place) -> void {
      if (d == dims) {
        const double value = x.at(from);
        if (chosen < 0 || value > best || std::isnan(value)) best = value, chosen = place;
        return;
      }
      const Bounds bounds = window(d, at[lead + d]);
      for (int64_t i = bounds.begin; i < bounds.end; i += bounds.step) {
        if (i < 0 || i >= x.sizes[lead + d]) continue;
        from[lead + d] = i;
        self(self, d + 1, from, place * x.sizes[lead + d] + i);
      }
    };
    scan(scan, 0, at, 0);
    values.at(at) = best;
    places.at(at) = static_cast<double>(chosen);
  });
  return {values, places};
}

Shape spread(const Shape& values, int dims, int64_t otherwise) {
  if (values.empty()) return Shape::filled(dims, otherwise);
  return values.size() == dims ? values : Shape::filled(dims, values[0]);
}

ArrayList pooled(const Array& x, const Sample& sample, int dims) {
  const Shape kernel = spread(sample.kernel, dims, 1);
  const Shape stride = sample.stride.empty() ? kernel : spread(sample.stride, dims, 1);
  const Shape padding = spread(sample.padding, dims, 0),
              dilation = spread(sample.dilation, dims, 1);
  Shape sizes;
  for (int d = 0; d < dims; ++d) {
    const int64_t in = x.sizes[x.sizes.size() - dims + d], s = stride[d];
    const int64_t room = in + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
    int64_t out = (sample.ceil_mode ? room + s - 1 : room) / s + 1;
    if (sample.ceil_mode && (out - 1) * s >= in + padding[d]) --out;
    sizes.push_back(out);
  }
  return largest(x, sizes, [&](int d, int64_t o) -> Bounds {
    const int64_t begin = o * stride[d] - padding[d];
    return {begin, begin + (kernel[d] - 1) * dilation[d] + 1, dilation[d]};
  });
}

Out run_sample(const Tensor& x, const Sample& s, int dims) {
  const auto run = [&](const auto& pool) {
    const Shape padding = s.padding.empty() ? Shape{0} : s.padding;
    const Shape dilation = s.dilation.empty() ? Shape{1} : s.dilation;
    auto [values, places] = pool(pool::in_layout(x, s.channels_last), s.kernel, s.stride, padding,
                                 dilation, s.ceil_mode);
    return Out{values, places};
  };
  if (dims == 1) return run([](const auto&... a) { return max_pool1d_with_indices(a...); });
  if (dims == 2) return run([](const auto&... a) { return max_pool2d_with_indices(a...); });
  return run([](const auto&... a) { return max_pool3d_with_indices(a...); });
}

void add_pools(Cases& cases) {
  const Sample samples[] = {
      {"1-D", {2, 3, 9}, 3, 2, 1, {}},
      {"1-D, one row", {1, 17}, 4, 1, 2, 2},
      {"2-D", {2, 2, 5, 7}, 2, {}, {}, {}},
      {"2-D, overlapping", {1, 2, 6, 7}, 3, 2, 1, {}},
      {"2-D, ceil", {2, 5, 6}, {3, 2}, {2, 3}, {1, 0}, {}, true},
      {"2-D, dilated", {1, 1, 8, 9}, {2, 3}, {1, 2}, {1, 1}, {3, 2}},
      {"2-D, one window", {1, 2, 4, 30}, {4, 30}, {}, {}, {}},
      {"2-D, channels last", {2, 5, 5, 4}, 3, 2, 1, {}, false, true},
      {"2-D, many channels last", {1, 300, 3, 3}, 2, 1, {}, {}, true, true},
      {"3-D", {1, 2, 4, 3, 5}, {2, 3, 2}, {2, 1, 1}, {1, 1, 0}, {}},
      {"3-D, channels last", {1, 3, 3, 4, 3}, 2, {}, {}, {}, true, true},
      {"no batch", {0, 2, 4, 4}, 2, {}, {}, {}},
      {"large", {2, 3, 70, 65}, 3, 2, 1, {}},
  };
  for (const Sample& sample : samples) {
    const int dims = sample.name[0] == '1' ? 1 : sample.name[0] == '3' ? 3 : 2;
    const bool large = sample.sizes.numel() > 2000;
    cases.add({.op = "max_pool",
               .name = sample.name,
               .inputs = {{.sizes = sample.sizes, .values = distinct(sample.sizes.numel())}},
               .run = [=](In x) { return run_sample(x[0], sample, dims); },
               .reference = [=](Arrays x) { return pooled(x[0], sample, dims); },
               .dtypes = sample.sizes.numel() < 100 ? number_dtypes() : floating_dtypes(),
               .opt_out = large ? std::map<Mode, std::string>{{Mode::grad, "is large"}}
                                : std::map<Mode, std::string>{},
               .output_dtypes = {{}, kInt64}});
  }
}

void add_adaptive(Cases& cases) {
  struct Adaptive {
    const char* name;
    Shape sizes, out;
    bool channels_last = false;
  };
  const Adaptive samples[] = {
      {"adaptive", {2, 7, 5}, {3, 2}},
      {"adaptive, equal parts", {1, 2, 4, 6}, {2, 3}},
      {"adaptive, more than there are", {1, 1, 2, 3}, {3, 5}},
      {"adaptive, channels last", {2, 5, 5, 4}, {2, 3}, true},
      {"adaptive, nothing", {2, 3, 4}, {0, 2}},
  };
  for (const Adaptive& sample : samples)
    cases.add({.op = "max_pool",
               .name = sample.name,
               .inputs = {{.sizes = sample.sizes, .values = distinct(sample.sizes.numel())}},
               .run =
                   [=](In x) {
                     auto [values, places] = adaptive_max_pool2d_with_indices(
                         pool::in_layout(x[0], sample.channels_last), sample.out);
                     return Out{values, places};
                   },
               .reference =
                   [=](Arrays x) {
                     return largest(x[0], sample.out, [&](int d, int64_t o) -> Bounds {
                       const int64_t in = sample.sizes[sample.sizes.size() - 2 + d];
                       const int64_t out = sample.out[d];
                       return {o * in / out, ((o + 1) * in + out - 1) / out, 1};
                     });
                   },
               .output_dtypes = {{}, kInt64}});
}

void add_special(Cases& cases) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const Sample quarters{"", {1, 1, 4, 4}, 2, {}, {}, {}};
  for (const bool channels_last : {false, true})
    cases.add({.op = "max_pool",
               .name = channels_last ? "special values, channels last" : "special values",
               .inputs = {{.sizes = {1, 2, 2, 4},
                           .values = {1, nan, inf, -inf, 2, 3, 4, nan,  //
                                      -inf, -inf, 0, 0, -inf, -inf, 0, 0}}},
               .run =
                   [=](In x) {
                     Sample sample = quarters;
                     sample.channels_last = channels_last;
                     return run_sample(x[0], sample, 2);
                   },
               .reference = [=](Arrays x) { return pooled(x[0], quarters, 2); },
               .opt_out = {{Mode::grad, "has ties and infinities"}},
               .output_dtypes = {{}, kInt64}});
  cases.add({.op = "max_pool",
             .name = "values alone",
             .inputs = {{{2, 3, 7, 5}}},
             .run =
                 [](In x) {
                   no_grad guard;
                   return one(max_pool2d(x[0], {3, 2}, {1, 2}, {1, 1}));
                 },
             .reference =
                 [](Arrays x) {
                   const Sample sample{"", {}, {3, 2}, {1, 2}, {1, 1}, {}};
                   return one(pooled(x[0], sample, 2)[0]);
                 },
             .opt_out = {{Mode::grad, "is about no_grad"}}});
}

// Gradients of gradients, with windows that overlap.
void add_backward(Cases& cases) {
  for (const bool channels_last : {false, true}) {
    MaxPoolBackwardAttrs attrs;
    attrs.kernel_size = {2};
    attrs.stride = attrs.dilation = {1};
    attrs.padding = {0};
    attrs.sizes = {2, 1, 5};
    if (channels_last) {
      attrs.sizes = {1, 2, 1, 5};
      attrs.kernel_size = {1, 2};
      attrs.stride = attrs.dilation = {1, 1};
      attrs.padding = {0, 0};
      attrs.channels_last = true;
    }
    const Shape sizes = channels_last ? Shape{1, 2, 1, 4} : Shape{2, 1, 4};
    cases.add(
        {.op = "max_pool_backward",
         .name = channels_last ? "channels last" : "overlapping",
         .inputs = {{sizes}, {.sizes = sizes, .dtype = kInt64, .values = {1, 1, 3, 3, 0, 2, 2, 4}}},
         .run =
             [=](In x) {
               return one(apply(max_pool_backward_op, {x[0], x[1]}, attrs));
             },
         .reference =
             [=](Arrays x) {
               Array out(attrs.sizes);
               for (int64_t i = 0; i < 8; ++i)
                 out[i / 4 * 5 + static_cast<int64_t>(x[1][i])] += x[0][i];
               return one(out);
             }});
  }
}

void add_unpool(Cases& cases) {
  cases.add({.op = "max_unpool2d",
             .name = "halves",
             .inputs = {{{1, 1, 2, 2}},
                        {.sizes = {1, 1, 2, 2}, .dtype = kInt64, .values = {1, 6, 8, 15}}},
             .run = [](In x) { return one(max_unpool2d(x[0], x[1], 2)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{1, 1, 4, 4});
                   for (int64_t i = 0; i < 4; ++i) out[static_cast<int64_t>(x[1][i])] = x[0][i];
                   return one(out);
                 }});
  cases.add({.op = "max_unpool1d",
             .name = "given size",
             .inputs = {{{2, 2}}, {.sizes = {2, 2}, .dtype = kInt64, .values = {0, 4, 1, 2}}},
             .run = [](In x) { return one(max_unpool1d(x[0], x[1], 2, {}, 0, {5})); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{2, 5});
                   for (int64_t i = 0; i < 4; ++i)
                     out[i / 2 * 5 + static_cast<int64_t>(x[1][i])] = x[0][i];
                   return one(out);
                 }});
}

}  // namespace

void max_pool_cases(Cases& cases) {
  add_pools(cases);
  add_adaptive(cases);
  add_special(cases);
  add_backward(cases);
  add_unpool(cases);
  cases.error("max_pool", "padding", "max_pool2d: padding must be from 0 to half of kernel_size",
              [] {
                max_pool2d(zeros({1, 1, 4, 4}), 2, 2, 2);
              });
  cases.error("max_pool", "kernel", "kernel_size must be positive", [] {
    max_pool2d(zeros({1, 1, 4, 4}), 0);
  });
  cases.error("max_pool", "too many sizes", "kernel_size must be a single int or have 2 entries",
              [] {
                max_pool2d(zeros({1, 1, 4, 4}), {2, 2, 2});
              });
  cases.error("max_pool", "window", "max_pool1d: a window of 5 does not fit into size 4", [] {
    max_pool1d(zeros({1, 4}), 5);
  });
  cases.error("max_pool", "dims", "max_pool3d: input must have 4 or 5 dims", [] {
    max_pool3d(zeros({1, 4}), 2);
  });
  cases.error("max_pool", "empty", "only the batch of input may be empty", [] {
    max_pool2d(zeros({1, 0, 4, 4}), 2);
  });
  cases.error("max_pool", "output_size", "adaptive_max_pool1d: output_size must not be negative",
              [] {
                adaptive_max_pool1d(zeros({1, 4}), -2);
              });
  cases.error("max_pool", "bool", "expected numbers", [] {
    max_pool2d(zeros({1, 4, 4}, {.dtype = kBool}), 2);
  });
  cases.error("max_unpool2d", "shape", "max_unpool2d: indices must have the shape of input", [] {
    max_unpool2d(zeros({1, 2, 2}), zeros({1, 2, 1}, {.dtype = kInt64}), 2);
  });
  cases.error("max_unpool2d", "size", "output_size of dim 1 must lie between 2 and 6", [] {
    max_unpool2d(zeros({1, 2, 2}), zeros({1, 2, 2}, {.dtype = kInt64}), 2, {}, 0, {4, 9});
  });
}

}  // namespace tensora::suite
