#include "tensora/ops/pool/avg_pool.h"

#include <algorithm>
#include <cmath>

#include "tensora/dispatch/op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  int dims;
  Shape sizes;
  Shape kernel, stride, padding;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor = {};
  bool channels_last = false;
};

Shape spread(const Shape& values, int dims, int64_t otherwise) {
  if (values.empty()) return Shape::filled(dims, otherwise);
  return values.size() == dims ? values : Shape::filled(dims, values[0]);
}

// A window along one dim; `counted` positions enter the mean.
struct Bounds {
  int64_t begin, end, counted;
};
template <class Window>
Array means(const Array& x, const Shape& pooled, std::optional<int64_t> divisor,
            const Window& window) {
  const int dims = pooled.size(), lead = x.sizes.size() - dims;
  Shape sizes = x.sizes;
  for (int d = 0; d < dims; ++d) sizes[lead + d] = pooled[d];
  Array result(sizes);
  Array::each(sizes, [&](const Shape& at) {
    double sum = 0;
    int64_t count = 1;
    for (int d = 0; d < dims; ++d) count *= window(d, at[lead + d]).counted;
    const auto scan = [&](const auto& self, int d, Shape from) -> void {
      if (d == dims) {
        sum += x.at(from);
        return;
      }
      const Bounds bounds = window(d, at[lead + d]);
      for (from[lead + d] = bounds.begin; from[lead + d] < bounds.end; ++from[lead + d])
        self(self, d + 1, from);
    };
    scan(scan, 0, at);
    result.at(at) = sum / static_cast<double>(divisor.value_or(count));
  });
  return result;
}

Array averaged(const Array& x, const Sample& sample) {
  const int dims = sample.dims;
  const Shape kernel = spread(sample.kernel, dims, 1);
  const Shape stride = sample.stride.empty() ? kernel : spread(sample.stride, dims, 1);
  const Shape padding = spread(sample.padding, dims, 0);
  Shape sizes;
  const auto in_of = [&](int d) { return x.sizes[x.sizes.size() - dims + d]; };
  for (int d = 0; d < dims; ++d) {
    const int64_t s = stride[d], room = in_of(d) + 2 * padding[d] - kernel[d];
    int64_t out = (sample.ceil_mode ? room + s - 1 : room) / s + 1;
    if (sample.ceil_mode && (out - 1) * s >= in_of(d) + padding[d]) --out;
    sizes.push_back(out);
  }
  return means(x, sizes, sample.divisor, [&](int d, int64_t o) -> Bounds {
    const int64_t start = o * stride[d] - padding[d];
    const int64_t padded = std::min(start + kernel[d], in_of(d) + padding[d]) - start;
    const int64_t begin = std::max<int64_t>(start, 0), end = std::min(start + kernel[d], in_of(d));
    return {begin, end, sample.count_include_pad ? padded : end - begin};
  });
}

Tensor run_sample(const Tensor& input, const Sample& s) {
  const Tensor x = pool::in_layout(input, s.channels_last);
  const Shape padding = s.padding.empty() ? Shape{0} : s.padding;
  if (s.dims == 1)
    return avg_pool1d(x, s.kernel, s.stride, padding, s.ceil_mode, s.count_include_pad);
  if (s.dims == 2)
    return avg_pool2d(x, s.kernel, s.stride, padding, s.ceil_mode, s.count_include_pad, s.divisor);
  return avg_pool3d(x, s.kernel, s.stride, padding, s.ceil_mode, s.count_include_pad, s.divisor);
}

void add_pools(Cases& cases) {
  const Sample samples[] = {
      {"1-D", 1, {2, 3, 9}, 3, 2, 1},
      {"2-D", 2, {2, 2, 5, 7}, 2, {}, {}},
      {"2-D, not counting the padding", 2, {1, 6, 7}, 3, 2, 1, true, false},
      {"2-D, ceil", 2, {2, 5, 6}, {3, 2}, {2, 3}, {1, 0}, true},
      {"2-D, given divisor", 2, {1, 2, 5, 4}, 3, 1, 1, false, true, 2},
      {"2-D, one window", 2, {1, 2, 4, 30}, {4, 30}, {}, {}},
      {"2-D, channels last", 2, {2, 5, 5, 4}, 3, 2, 1, true, true, {}, true},
      {"3-D", 3, {1, 2, 4, 3, 5}, {2, 3, 2}, {2, 1, 1}, {1, 1, 0}},
      {"3-D, channels last", 3, {1, 3, 3, 4, 3}, 2, 1, 1, false, false, {}, true},
      {"no batch", 2, {0, 2, 4, 4}, 2, {}, {}},
      {"large", 2, {2, 3, 70, 65}, 3, 2, 1},
  };
  for (const Sample& sample : samples)
    cases.add({.op = "avg_pool",
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run = [=](In x) { return one(run_sample(x[0], sample)); },
               .reference = [=](Arrays x) { return one(averaged(x[0], sample)); },
               .opt_out = sample.sizes.numel() > 2000
                              ? std::map<Mode, std::string>{{Mode::grad, "is large"}}
                              : std::map<Mode, std::string>{}});
  cases.add({.op = "avg_pool",
             .name = "integers",
             .inputs = {{.sizes = {1, 3}, .low = -9, .high = 9, .dtype = kInt64}},
             .run = [](In x) { return one(avg_pool1d(x[0], 2, 1)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{1, 2});
                   for (int64_t i = 0; i < 2; ++i) out[i] = std::trunc((x[0][i] + x[0][i + 1]) / 2);
                   return one(out);
                 },
             .dtypes = {kInt64}});
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
      {"adaptive, to one", {2, 2, 4, 3}, {1, 1}},
      {"adaptive, more than there are", {1, 1, 2, 3}, {3, 5}},
      {"adaptive, channels last", {2, 5, 5, 4}, {2, 3}, true},
      {"adaptive, nothing", {2, 3, 4}, {0, 2}},
  };
  for (const Adaptive& sample : samples)
    cases.add({.op = "avg_pool",
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run =
                   [=](In x) {
                     return one(adaptive_avg_pool2d(pool::in_layout(x[0], sample.channels_last),
                                                    sample.out));
                   },
               .reference =
                   [=](Arrays x) {
                     return one(means(x[0], sample.out, {}, [&](int d, int64_t o) -> Bounds {
                       const int64_t in = sample.sizes[sample.sizes.size() - 2 + d];
                       const int64_t out = sample.out[d], begin = o * in / out;
                       const int64_t end = ((o + 1) * in + out - 1) / out;
                       return {begin, end, end - begin};
                     }));
                   }});
}

}  // namespace

void avg_pool_cases(Cases& cases) {
  add_pools(cases);
  add_adaptive(cases);
  cases.add({.op = "avg_pool_backward",
             .name = "overlapping",
             .inputs = {{{1, 4}}},
             .run =
                 [](In x) {
                   AvgPoolBackwardAttrs attrs;
                   attrs.kernel_size = {2};
                   attrs.stride = attrs.dilation = {1};
                   attrs.padding = {0};
                   attrs.sizes = {1, 5};
                   return one(apply(avg_pool_backward_op, {x[0]}, attrs));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{1, 5});
                   for (int64_t i = 0; i < 4; ++i) {
                     out[i] += x[0][i] / 2;
                     out[i + 1] += x[0][i] / 2;
                   }
                   return one(out);
                 }});
  cases.add({.op = "lp_pool1d",
             .name = "squares",
             .inputs = {{.sizes = {2, 6}, .low = 0.5, .high = 3}},
             .run = [](In x) { return one(lp_pool1d(x[0], 2, 3, 2, true)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{2, 3});
                   Array::each(out.sizes, [&](const Shape& at) {
                     double sum = 0;
                     const int64_t begin = at[1] * 2, end = std::min<int64_t>(begin + 3, 6);
                     for (int64_t i = begin; i < end; ++i)
                       sum += x[0].at({at[0], i}) * x[0].at({at[0], i});
                     out.at(at) = std::sqrt(sum / static_cast<double>(end - begin) * 3);
                   });
                   return one(out);
                 },
             .tolerance = 4});
  cases.error("avg_pool", "padding", "avg_pool2d: padding must be from 0 to half of kernel_size",
              [] {
                avg_pool2d(zeros({1, 1, 4, 4}), 2, 2, 2);
              });
  cases.error("avg_pool", "no output_size", "adaptive_avg_pool2d: output_size must be a single int",
              [] {
                adaptive_avg_pool2d(zeros({1, 1, 4, 4}), Shape{});
              });
  cases.error("avg_pool", "divisor", "divisor_override must not be 0", [] {
    avg_pool2d(zeros({1, 1, 4, 4}), 2, {}, 0, false, true, 0);
  });
  cases.error("avg_pool", "dtype", "int32", [] {
    avg_pool2d(zeros({1, 1, 4, 4}, {.dtype = kInt32}), 2);
  });
  cases.error("avg_pool", "empty", "only the batch of input may be empty", [] {
    adaptive_avg_pool2d(zeros({1, 1, 0, 4}), {1, 2});
  });
}

}  // namespace tensora::suite
