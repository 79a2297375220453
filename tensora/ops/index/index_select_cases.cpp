#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// Where slice number `i` of the selection lies along `dim`.
Shape moved(const Shape& at, int dim, const Array& index, int64_t size) {
  Shape result = at;
  const auto position = static_cast<int64_t>(index[at[dim]]);
  result[dim] = position < 0 ? position + size : position;
  return result;
}

struct Sample {
  const char* name;
  Shape sizes;
  int64_t dim;
  std::vector<double> positions;
  DType dtype = kInt64;

  int at() const { return static_cast<int>(dim < 0 ? dim + sizes.size() : dim); }
  Input index() const {
    return {.sizes = {static_cast<int64_t>(positions.size())}, .dtype = dtype, .values = positions};
  }
  Shape chosen() const {
    Shape result = sizes;
    result[at()] = static_cast<int64_t>(positions.size());
    return result;
  }
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> list = {
      {"rows", {4, 3}, 0, {3, 0, 1}},
      {"columns", {3, 4}, -1, {2, 0}},
      {"middle", {2, 4, 3}, 1, {0, 3, 1}, kInt32},
      {"wide rows", {5, 2, 16}, 0, {4, 0, 2}},
      {"vector", {6}, 0, {5, 2, 0, 1}},
      {"none", {3, 2}, 0, {}},
      {"of an empty tensor", {3, 0}, 0, {1, 2}},
  };
  return list;
}

void add_select(Cases& cases) {
  std::vector<Sample> all = samples();
  all.push_back({"repeated rows", {4, 3}, 0, {1, 1, 3, 1}});
  all.push_back({"repeated elements", {2, 3}, 1, {2, 2, 0, 2}});
  for (const Sample& sample : all)
    cases.add({.op = "index_select",
               .name = sample.name,
               .inputs = {{sample.sizes}, sample.index()},
               .run = [=](In x) { return one(index_select(x[0], sample.dim, x[1])); },
               .reference =
                   [=](Arrays x) {
                     Array result(sample.chosen());
                     Array::each(result.sizes, [&](const Shape& at) {
                       result.at(at) =
                           x[0].at(moved(at, sample.at(), x[1], sample.sizes[sample.at()]));
                     });
                     return one(result);
                   },
               .dtypes = element_dtypes()});
  cases.add({.op = "index_select",
             .name = "0-dim",
             .inputs = {{{}}, {.sizes = {1}, .dtype = kInt64, .values = {0}}},
             .run = [](In x) { return one(index_select(x[0], 0, x[1])); },
             .reference = [](Arrays x) { return one(x[0]); },
             .dtypes = element_dtypes()});
  cases.add({.op = "index_select",
             .name = "large",
             .inputs = {{{4096, 512}}, {.sizes = {4096}, .low = 0, .high = 4095, .dtype = kInt64}},
             .run = [](In x) { return one(index_select(x[0], 0, x[1])); },
             .dtypes = {kFloat32},
             .big = true});
}

Array written(Arrays x, const Sample& sample, double self_factor, double alpha) {
  Array result = x[0];
  Array::each(sample.chosen(), [&](const Shape& at) {
    double& place = result.at(moved(at, sample.at(), x[1], sample.sizes[sample.at()]));
    place = place * self_factor + alpha * x[2].at(at);
  });
  return result;
}

void add_writing(Cases& cases) {
  for (const Sample& sample : samples())
    cases.add({.op = "index_copy",
               .name = sample.name,
               .inputs = {{sample.sizes}, sample.index(), {sample.chosen()}},
               .run = [=](In x) { return one(index_copy(x[0], sample.dim, x[1], x[2])); },
               .reference = [=](Arrays x) { return one(written(x, sample, 0, 1)); },
               .dtypes = element_dtypes(),
               .inplace = [=](In x) { index_copy_(x[0], sample.dim, x[1], x[2]); }});
  std::vector<Sample> all = samples();
  all.push_back({"repeated rows", {4, 3}, 0, {1, 1, 3, 1}});
  all.push_back({"repeated elements", {2, 3}, 1, {2, 2, 0, 2}});
  for (const Sample& sample : all) {
    cases.add({.op = "index_add",
               .name = sample.name,
               .inputs = {{sample.sizes}, sample.index(), {sample.chosen()}},
               .run = [=](In x) { return one(index_add(x[0], sample.dim, x[1], x[2])); },
               .reference = [=](Arrays x) { return one(written(x, sample, 1, 1)); },
               .inplace = [=](In x) { index_add_(x[0], sample.dim, x[1], x[2]); }});
    cases.add({.op = "index_fill",
               .name = sample.name,
               .inputs = {{sample.sizes}, sample.index()},
               .run = [=](In x) { return one(index_fill(x[0], sample.dim, x[1], 1)); },
               .reference =
                   [=](Arrays x) {
                     const Array ones(sample.chosen(), 1);
                     const Array inputs[] = {x[0], x[1], ones};
                     return one(written(inputs, sample, 0, 1));
                   },
               .dtypes = element_dtypes(),
               .inplace = [=](In x) { index_fill_(x[0], sample.dim, x[1], 1); }});
  }
}

void add_special_writing(Cases& cases) {
  const Sample rows = samples()[0];
  cases.add({.op = "index_add",
             .name = "alpha",
             .inputs = {{rows.sizes}, rows.index(), {rows.chosen()}},
             .run = [=](In x) { return one(index_add(x[0], 0, x[1], x[2], 0.5)); },
             .reference = [=](Arrays x) { return one(written(x, rows, 1, 0.5)); }});
  cases.add({.op = "index_add",
             .name = "integers",
             .inputs = {{.sizes = rows.sizes, .low = 0},
                        rows.index(),
                        {.sizes = rows.chosen(), .low = 0}},
             .run = [=](In x) { return one(index_add(x[0], 0, x[1], x[2])); },
             .reference = [=](Arrays x) { return one(written(x, rows, 1, 1)); },
             .dtypes = integer_dtypes()});
  cases.add({.op = "index_fill",
             .name = "by a tensor",
             .inputs = {{rows.sizes}, rows.index(), {{}}},
             .run = [=](In x) { return one(index_fill(x[0], 0, x[1], x[2])); },
             .reference =
                 [=](Arrays x) {
                   const Array inputs[] = {x[0], x[1], x[2].broadcast_to(rows.chosen())};
                   return one(written(inputs, rows, 0, 1));
                 },
             .inplace = [](In x) { index_fill_(x[0], 0, x[1], x[2]); }});
  cases.add({.op = "index_add",
             .name = "integers by a float alpha, which is cut",
             .inputs = {{.sizes = {3}, .values = {1, 2, 3}},
                        {.sizes = {2}, .dtype = kInt64, .values = {0, 2}},
                        {.sizes = {2}, .values = {3, 5}}},
             .run = [](In x) { return one(index_add(x[0], 0, x[1], x[2], 2.9)); },
             .reference =
                 [](Arrays x) {
                   Array result = x[0];
                   result[0] += 2 * x[2][0];
                   result[2] += 2 * x[2][1];
                   return one(result);
                 },
             .dtypes = integer_dtypes()});
  cases.add({.op = "index_fill",
             .name = "gradient of a value at repeated places",
             .inputs = {{{3, 2}}, {.sizes = {3}, .dtype = kInt64, .values = {0, 0, 1}}, {{}}},
             .run =
                 [](In x) {
                   const Tensor value = x[2].detach().requires_grad_();
                   return one(grad(sum(index_fill(x[0], 0, x[1], value)), {value})[0]);
                 },
             .reference = [](Arrays) { return one(Array({}, 4)); },
             .opt_out = {{Mode::grad, "the case is a gradient itself"},
                         {Mode::meta, "needs values"},
                         {Mode::jit, "gradients are not traced"}}});
  cases.add({.op = "index_fill",
             .name = "counted from the end",
             .inputs = {{{4}}, {.sizes = {1}, .dtype = kInt64, .values = {-1}}},
             .run = [](In x) { return one(index_fill(x[0], 0, x[1], 1)); },
             .reference =
                 [](Arrays x) {
                   Array result = x[0];
                   result[3] = 1;
                   return one(result);
                 }});
}

}  // namespace

void index_select_cases(Cases& cases) {
  add_select(cases);
  add_writing(cases);
  add_special_writing(cases);
}

}  // namespace tensora::suite
