#include <limits>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;
  int64_t dim;
};

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// The elements of `out` along `dim`, in order: step(index of the element, index of the one before).
void each_step(const Shape& sizes, int64_t dim, bool reverse,
               const std::function<void(const Shape& at, const Shape* before)>& step) {
  if (sizes.empty()) return step({}, nullptr);
  const int d = static_cast<int>(dim < 0 ? dim + sizes.size() : dim);
  Shape lines = sizes;
  lines[d] = sizes[d] == 0 ? 0 : 1;
  Array::each(lines, [&](const Shape& line) {
    for (int64_t i = 0; i < sizes[d]; ++i) {
      Shape at = line, before = line;
      at[d] = reverse ? sizes[d] - 1 - i : i;
      before[d] = reverse ? at[d] + 1 : at[d] - 1;
      step(at, i == 0 ? nullptr : &before);
    }
  });
}

Array scanned(const Array& x, int64_t dim, bool product) {
  Array out = x;
  each_step(x.sizes, dim, false, [&](const Shape& at, const Shape* before) {
    if (!before) return;
    out.at(at) = product ? out.at(*before) * x.at(at) : out.at(*before) + x.at(at);
  });
  return out;
}

Array linear(const Array& a, const Array& b, int64_t dim, bool reverse) {
  Array out = b;
  each_step(b.sizes, dim, reverse, [&](const Shape& at, const Shape* before) {
    if (before) out.at(at) += a.at(at) * out.at(*before);
  });
  return out;
}

DType natural(DType dtype) { return is_floating_point(dtype) ? dtype : kInt64; }

using Function = Tensor (*)(const Tensor&, int64_t, std::optional<DType>);
using InPlace = const Tensor& (*)(const Tensor&, int64_t);

Case sample_of(const Sample& sample, bool product) {
  const Function run = product ? cumprod : cumsum;
  return {
      .op = product ? "cumprod" : "cumsum",
      .name = sample.name,
      .inputs = {{.sizes = sample.sizes, .low = product ? 0.8 : -3, .high = product ? 1.25 : 3}},
      .run = [=](In x) { return one(run(x[0], sample.dim, {})); },
      .reference = [=](Arrays x) { return one(scanned(x[0], sample.dim, product)); },
      .output_dtype = natural,
      .tolerance = 4};
}

void small_samples(Cases& cases, bool product) {
  const Sample samples[] = {{"vector", {7}, 0},           {"rows", {3, 5}, 1},
                            {"columns", {5, 3}, 0},       {"middle", {2, 4, 3}, 1},
                            {"from the end", {2, 3}, -1}, {"0-dim", {}, 0},
                            {"one element", {1}, 0},      {"empty", {0}, 0},
                            {"empty lines", {3, 0}, 1},   {"no lines", {0, 3}, 1},
                            {"nine", {2, 9}, 1},          {"seventeen", {17, 2}, 0}};
  const InPlace inplace = product ? cumprod_ : cumsum_;
  for (const Sample& sample : samples) {
    Case floats = sample_of(sample, product);
    floats.inplace = [=](In x) { inplace(x[0], sample.dim); };
    cases.add(floats);
    Case integers = sample_of(sample, product);
    integers.name += ", integers";
    integers.inputs[0].low = -2;
    integers.inputs[0].high = 3;
    integers.dtypes = integral_dtypes();
    cases.add(integers);
  }
}

// Lines of every length around a warp, a block and several chunks.
void long_samples(Cases& cases, bool product) {
  const Sample samples[] = {{"a long vector", {70001}, 0},    {"long rows", {3, 5000}, 1},
                            {"long columns", {3000, 5}, 0},   {"many short rows", {300, 33}, 1},
                            {"wide columns", {40, 700}, 0},   {"rows of a tile", {2, 2048}, 1},
                            {"one past a tile", {2, 2049}, 1}};
  for (const Sample& sample : samples) {
    Case floats = sample_of(sample, product);
    floats.dtypes = {kFloat32, kFloat64};
    floats.tolerance = 40;
    floats.inputs[0].low = product ? 0.999 : -1;
    floats.inputs[0].high = product ? 1.001 : 1.1;
    floats.opt_out = {{Mode::grad, "too many elements; the small samples have it"}};
    cases.add(floats);
    if (product) continue;
    Case integers = floats;
    integers.name += ", integers";
    integers.inputs[0].low = -50;
    integers.inputs[0].high = 51;
    integers.dtypes = {kInt8, kInt64, kBool};
    integers.tolerance = 0;
    cases.add(integers);
  }
}

void zeros_and_specials(Cases& cases) {
  const auto with_values = [&](const char* name, const Shape& sizes, int64_t dim,
                               std::vector<double> values) {
    Case sample = sample_of({name, sizes, dim}, true);
    sample.inputs[0].values = std::move(values);
    cases.add(sample);
  };
  with_values("one zero", {5}, 0, {1, 2, 0, -3, 0.5});
  with_values("zeros, rows", {4, 3}, 1, {1, 2, 3, 0, 2, -3, 0, 0, 2, 0, 0, 0});
  with_values("zeros, columns", {3, 4}, 0, {1, 2, 0, 0, 1.5, 2, 2, -3, 0, 0, 2, 1});
  for (const bool product : {false, true}) {
    Case special = sample_of({"NaN stays", {6}, 0}, product);
    special.inputs[0].values = {1, 2, kNotANumber, 1, 0, 3};
    special.opt_out = {{Mode::grad, "NaN"}};
    cases.add(special);
  }
}

void dtype_argument(Cases& cases) {
  cases.add({.op = "cumsum",
             .name = "of float32 as int64",
             .inputs = {{.sizes = {4}, .values = {0.5, 1.75, -0.5, 2}}},
             .run = [](In x) { return one(cumsum(x[0], 0, kInt64)); },
             .reference =
                 [](Arrays) {
                   Array out({4});
                   out.values = {0, 1, 1, 3};
                   return one(out);
                 },
             .dtypes = {kFloat32},
             .output_dtype = [](DType) { return kInt64; },
             .opt_out = {{Mode::grad, "integers"},
                         {Mode::view, "the reference belongs to the listed values"}}});
  cases.add({.op = "cumprod",
             .name = "of integers as int8, wrapping",
             .inputs = {{.sizes = {4}, .values = {100, 2, 1, 3}}},
             .run = [](In x) { return one(cumprod(x[0], 0, kInt8)); },
             .reference =
                 [](Arrays) {
                   Array out({4});
                   out.values = {100, -56, -56, 88};
                   return one(out);
                 },
             .dtypes = {kInt32, kUInt8},
             .output_dtype = [](DType) { return kInt8; },
             .opt_out = {{Mode::view, "the reference belongs to the listed values"}}});
  cases.add({.op = "cumsum",
             .name = "of float32 as float64",
             .inputs = {{.sizes = {3, 5}}},
             .run = [](In x) { return one(cumsum(x[0], 1, kFloat64)); },
             .reference = [](Arrays x) { return one(scanned(x[0], 1, false)); },
             .dtypes = {kFloat32, kInt16},
             .output_dtype = [](DType) { return kFloat64; }});
}

void linear_samples(Cases& cases) {
  const Sample samples[] = {{"vector", {7}, 0},     {"rows", {3, 5}, 1},
                            {"columns", {5, 3}, 0}, {"middle", {2, 4, 3}, -2},
                            {"empty", {2, 0}, 1},   {"one element", {1}, 0}};
  for (const bool reverse : {false, true})
    for (const Sample& sample : samples)
      cases.add(
          {.op = "linear_scan",
           .name = concat(sample.name, reverse ? ", reverse" : ""),
           .inputs = {{.sizes = sample.sizes, .low = -1.1, .high = 1.1}, {sample.sizes}},
           .run = [=](In x) { return one(linear_scan(x[0], x[1], sample.dim, reverse)); },
           .reference = [=](Arrays x) { return one(linear(x[0], x[1], sample.dim, reverse)); },
           .tolerance = 4});
  const Sample large[] = {{"a long vector", {70001}, 0}, {"long columns", {3000, 5}, 0}};
  for (const Sample& sample : large)
    cases.add({.op = "linear_scan",
               .name = sample.name,
               .inputs = {{.sizes = sample.sizes, .low = -1, .high = 1}, {sample.sizes}},
               .run = [=](In x) { return one(linear_scan(x[0], x[1], sample.dim)); },
               .reference = [=](Arrays x) { return one(linear(x[0], x[1], sample.dim, false)); },
               .dtypes = {kFloat32, kFloat64},
               .tolerance = 4,
               .opt_out = {{Mode::grad, "too many elements; the small samples have it"}}});
}

void others(Cases& cases) {
  for (const int64_t dim : {0, 1})
    cases.add({.op = "product_of_others",
               .name = concat("along ", dim),
               .inputs = {{.sizes = {3, 4}, .values = {1, 2, 0, 3, -1, 2, 0, 0, 1.5, 2, 3, 0.5}}},
               .run = [=](In x) { return one(product_of_others(x[0], dim)); },
               .reference =
                   [=](Arrays x) {
                     Array out(x[0].sizes, 1);
                     Array::each(out.sizes, [&](const Shape& at) {
                       Shape other = at;
                       for (int64_t i = 0; i < out.sizes[static_cast<int>(dim)]; ++i) {
                         other[static_cast<int>(dim)] = i;
                         if (other != at) out.at(at) *= x[0].at(other);
                       }
                     });
                     return one(out);
                   }});
}

void mistakes(Cases& cases) {
  cases.error("cumsum", "dim out of range", "cumsum: dimension out of range", [] {
    cumsum(zeros({2, 3}), 2);
  });
  cases.error("cumprod", "dim out of range", "cumprod: dimension out of range", [] {
    cumprod(zeros({2, 3}), -3);
  });
  cases.error("cumsum", "0-dim and dim 1", "cumsum: dimension out of range",
              [] { cumsum(zeros({}), 1); });
  cases.error("linear_scan", "two shapes", "expected one shape, got [2] and [3]",
              [] { linear_scan(zeros({2}), zeros({3}), 0); });
  cases.error("linear_scan", "integers", "expected one floating-point dtype, got int64 and int64",
              [] { linear_scan(arange(3), arange(3), 0); });
}

void big_samples(Cases& cases) {
  const Sample samples[] = {
      {"one vector", {1 << 24}, 0}, {"rows", {4096, 4096}, 1}, {"columns", {4096, 4096}, 0}};
  for (const Sample& sample : samples)
    cases.add({.op = "cumsum",
               .name = concat("large, ", sample.name),
               .inputs = {{.sizes = sample.sizes}},
               .run = [=](In x) { return one(cumsum(x[0], sample.dim)); },
               .dtypes = {kFloat32},
               .big = true});
}

}  // namespace

void cumulative_cases(Cases& cases) {
  for (const bool product : {false, true}) {
    small_samples(cases, product);
    long_samples(cases, product);
  }
  zeros_and_specials(cases);
  dtype_argument(cases);
  linear_samples(cases);
  others(cases);
  mistakes(cases);
  big_samples(cases);
}

}  // namespace tensora::suite
