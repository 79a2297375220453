#include "tensora/dispatch/op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array indices_of(const Array& x) {
  Array result;
  int64_t rows = 0;
  Array::each(x.sizes, [&](const Shape& at) {
    if (x.at(at) == 0) return;
    ++rows;
    for (int64_t entry : at) result.values.push_back(static_cast<double>(entry));
  });
  result.sizes = {rows, x.sizes.size()};
  return result;
}

Input sparse(const Shape& sizes) {
  Input input{.sizes = sizes};
  for (int64_t i = 0; i < sizes.numel(); ++i) input.values.push_back(i % 3 == 1 ? 0 : 1);
  return input;
}

}  // namespace

void nonzero_cases(Cases& cases) {
  const std::map<Mode, std::string> needs_data = {{Mode::grad, "the result is integers"},
                                                  {Mode::meta, "the shape depends on data"},
                                                  {Mode::jit, "the shape depends on data"}};
  for (const Shape& sizes : {Shape{}, Shape{7}, Shape{3, 4}, Shape{2, 3, 2}, Shape{0, 3}}) {
    for (const auto& [name, run] : {std::pair{"nonzero", &nonzero}, {"argwhere", &argwhere}})
      cases.add({.op = name,
                 .name = to_string(sizes),
                 .inputs = {sparse(sizes)},
                 .run = [run = run](In x) { return one(run(x[0])); },
                 .reference = [](Arrays x) { return one(indices_of(x[0])); },
                 .dtypes = all_dtypes(),
                 .output_dtype = [](DType) { return kInt64; },
                 .opt_out = needs_data});
  }
  cases.add({.op = "nonzero",
             .name = "several blocks",
             .inputs = {sparse({5, 8000})},
             .run = [](In x) { return one(nonzero(x[0])); },
             .reference = [](Arrays x) { return one(indices_of(x[0])); },
             .dtypes = {kFloat32, kBool},
             .output_dtype = [](DType) { return kInt64; },
             .opt_out = needs_data});
  cases.add({.op = "nonzero_tuple",
             .name = "matrix",
             .inputs = {sparse({3, 4})},
             .run = [](In x) { return nonzero_tuple(x[0]); },
             .reference =
                 [](Arrays x) {
                   const Array rows = indices_of(x[0]);
                   ArrayList result(2, Array(Shape{rows.sizes[0]}));
                   for (int64_t i = 0; i < rows.sizes[0]; ++i)
                     for (int64_t d = 0; d < 2; ++d)
                       result[static_cast<size_t>(d)][i] = rows.at({i, d});
                   return result;
                 },
             .dtypes = all_dtypes(),
             .output_dtype = [](DType) { return kInt64; },
             .opt_out = needs_data});
  cases.add({.op = "nonzero_count",
             .name = "matrix",
             .inputs = {sparse({3, 4})},
             .run = [](In x) { return one(apply(nonzero_count_op, {x[0].contiguous()})); },
             .reference = [](Arrays) { return one(Array(Shape{}, 8)); },
             .dtypes = all_dtypes(),
             .output_dtype = [](DType) { return kInt64; },
             .opt_out = {{Mode::grad, "the result is an integer"}}});
  cases.error("nonzero", "meta", "depends on data",
              [] { nonzero(zeros({2}, {.device = DeviceType::meta})); });
}

}  // namespace tensora::suite
