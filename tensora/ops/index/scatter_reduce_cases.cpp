#include "tensora/ops/index/scatter_reduce.h"

#include <cmath>
#include <limits>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double combined(double a, double b, const std::string& reduce) {
  if (reduce == "prod") return a * b;
  if (reduce == "amax") return std::isnan(a) || a > b ? a : b;
  if (reduce == "amin") return std::isnan(a) || a < b ? a : b;
  return a + b;
}

struct Sample {
  const char* name;
  Shape data, places;
  int64_t dim;
  std::vector<double> positions;
  std::vector<double> values = {};
};

// `index` has the shape of `src`.
Array reduced(Arrays x, const Array& index, const Array& src, int dim, const std::string& reduce,
              bool include_self, bool integers) {
  Array result = x[0];
  std::vector<int64_t> seen(result.values.size(), include_self ? 1 : 0);
  Array::each(index.sizes, [&](const Shape& at) {
    Shape to = at;
    if (!to.empty()) to[dim] = static_cast<int64_t>(index.at(at));
    const int64_t place = result.sizes.empty() ? 0 : result.offset(to);
    int64_t& count = seen[static_cast<size_t>(place)];
    result[place] = count == 0 ? src.at(at) : combined(result[place], src.at(at), reduce);
    ++count;
  });
  if (reduce == "mean")
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i] > 1) result.values[i] /= static_cast<double>(seen[i]);
      if (integers) result.values[i] = std::floor(result.values[i]);
    }
  return result;
}

void add_scatter_reduce(Cases& cases, const Sample& s, const char* reduce, bool include_self) {
  const int dim = static_cast<int>(s.dim < 0 ? s.dim + s.data.size() : s.dim);
  for (const bool integers : {false, true}) {
    if (integers && !s.values.empty()) continue;
    Case sample{
        .op = "scatter_reduce",
        .name = concat(s.name, " ", reduce, include_self ? "" : " without self",
                       integers ? ", integers" : ""),
        .inputs = {{.sizes = s.data},
                   {.sizes = s.places, .dtype = kInt64, .values = s.positions},
                   {.sizes = s.places, .values = s.values}},
        .run =
            [=](In x) {
              return one(scatter_reduce(x[0], s.dim, x[1], x[2], reduce, include_self));
            },
        .reference =
            [=](Arrays x) {
              return one(reduced(x, x[1], x[2], dim, reduce, include_self, integers));
            },
        .dtypes = integers ? std::vector<DType>{kInt64, kInt32, kInt8} : floating_dtypes(),
        .inplace = [=](In x) { scatter_reduce_(x[0], s.dim, x[1], x[2], reduce, include_self); },
        .tolerance = 4};
    if (!s.values.empty()) sample.opt_out = {{Mode::grad, "NaN"}};
    cases.add(sample);
  }
}

void add_index_reduce(Cases& cases, const char* reduce, bool include_self) {
  cases.add(
      {.op = "index_reduce",
       .name = concat("rows ", reduce, include_self ? "" : " without self"),
       .inputs = {{{4, 3}}, {.sizes = {3}, .dtype = kInt64, .values = {2, 0, 2}}, {{3, 3}}},
       .run = [=](In x) { return one(index_reduce(x[0], 0, x[1], x[2], reduce, include_self)); },
       .reference =
           [=](Arrays x) {
             Array index({3, 3});
             for (int64_t i = 0; i < 9; ++i) index[i] = x[1][i / 3];
             return one(reduced(x, index, x[2], 0, reduce, include_self, false));
           },
       .inplace = [=](In x) { index_reduce_(x[0], 0, x[1], x[2], reduce, include_self); },
       .tolerance = 4});
}

void add_puts(Cases& cases) {
  for (const bool accumulate : {false, true})
    cases.add(
        {.op = "put",
         .name = accumulate ? "added" : "written",
         .inputs = {{{2, 3}}, {.sizes = {2, 2}, .dtype = kInt64, .values = {0, -1, 2, 3}}, {{4}}},
         .run = [=](In x) { return one(put(x[0], x[1], x[2], accumulate)); },
         .reference =
             [=](Arrays x) {
               Array out = x[0];
               for (int64_t i = 0; i < 4; ++i) {
                 const auto at = static_cast<int64_t>(x[1][i]);
                 double& place = out[at < 0 ? at + 6 : at];
                 place = (accumulate ? place : 0) + x[2][i];
               }
               return one(out);
             },
         .dtypes = accumulate ? floating_dtypes() : element_dtypes(),
         .inplace = [=](In x) { put_(x[0], x[1], x[2], accumulate); }});
}

void errors(Cases& cases) {
  const auto index = [](std::initializer_list<int64_t> sizes, int64_t value) {
    return full(Shape(sizes), value, {.dtype = kInt64});
  };
  cases.error("scatter_reduce", "unknown", "reduce must be one of sum, prod",
              [=] { scatter_reduce(ones({3}), 0, index({2}, 0), ones({2}), "median"); });
  cases.error("scatter_reduce", "out of bounds", "index 3 is out of bounds",
              [=] { scatter_reduce(ones({3}), 0, index({2}, 3), ones({2}), "amax"); });
  cases.error("scatter_reduce", "another dtype", "src of dtype", [=] {
    scatter_reduce(ones({3}), 0, index({2}, 0), ones({2}, {.dtype = kInt64}), "prod");
  });
  cases.error("index_reduce", "sums", "reduce must be one of prod",
              [=] { index_reduce(ones({3}), 0, index({2}, 0), ones({2}), "sum"); });
  cases.error("index_reduce", "shape of source", "source must have shape [2, 3]", [=] {
    index_reduce(ones({3, 3}), 0, index({2}, 0), ones({3, 3}), "prod");
  });
  cases.error("put", "sizes", "as many elements",
              [=] { put(ones({3}), index({2}, 0), ones({3})); });
  cases.error("put", "out of bounds", "out of bounds",
              [=] { put(ones({3}), index({1}, 3), ones({1})); });
}

}  // namespace

void scatter_reduce_cases(Cases& cases) {
  const Sample samples[] = {
      {"vector", {4}, {5}, 0, {2, 2, 0, 1, 2}},
      {"rows", {3, 2}, {4, 2}, 0, {1, 1, 1, 0, 1, 1, 2, 1}},
      {"columns, smaller", {3, 4}, {2, 3}, -1, {3, 3, 0, 1, 1, 1}},
      {"0-dim", {}, {}, 0, {0}},
      {"none", {3}, {0}, 0, {}},
  };
  for (const Sample& s : samples)
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"})
      for (const bool include_self : {true, false})
        add_scatter_reduce(cases, s, reduce, include_self);
  for (const char* reduce : {"amax", "amin", "prod"})
    add_scatter_reduce(cases, {"NaN", {3}, {4}, 0, {0, 0, 2, 2}, {kNan, 1, 1, kNan}}, reduce, true);
  for (const char* reduce : {"prod", "mean", "amax", "amin"})
    for (const bool include_self : {true, false}) add_index_reduce(cases, reduce, include_self);
  add_puts(cases);
  errors(cases);
}

}  // namespace tensora::suite
