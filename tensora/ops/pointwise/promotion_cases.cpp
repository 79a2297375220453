// Which dtype comes out when operands of different dtypes, 0-dim tensors and plain numbers meet.
#include <cmath>

#include "tests/suite/pointwise.h"

namespace tensora::suite {
namespace {

ArrayList sum_of(Arrays x) {
  return map_elements(x, [](const double* v) { return v[0] + v[1]; });
}

struct Pair {
  DType a, b, result;
};

void add_tensors(Cases& cases) {
  const Pair table[] = {{kBool, kUInt8, kUInt8},         {kBool, kFloat16, kFloat16},
                        {kUInt8, kInt8, kInt16},         {kUInt8, kInt64, kInt64},
                        {kInt8, kInt16, kInt16},         {kInt32, kInt64, kInt64},
                        {kInt64, kFloat16, kFloat16},    {kInt64, kFloat32, kFloat32},
                        {kFloat16, kBFloat16, kFloat32}, {kFloat16, kFloat32, kFloat32},
                        {kBFloat16, kFloat64, kFloat64}, {kFloat32, kFloat64, kFloat64}};
  for (const Pair& pair : table)
    for (const bool swapped : {false, true}) {
      const DType first = swapped ? pair.b : pair.a, second = swapped ? pair.a : pair.b;
      cases.add({.op = "add",
                 .name = concat(first, " and ", second),
                 .inputs = {{.sizes = {3, 4}, .low = 0, .dtype = first},
                            {.sizes = {4}, .low = 0, .dtype = second}},
                 .run = [](In x) { return one(x[0] + x[1]); },
                 .reference = sum_of,
                 .dtypes = {kFloat32},
                 .output_dtype = [result = pair.result](DType) { return result; }});
    }
}

// A 0-dim tensor yields to one with dims, unless it is of a higher category.
void add_0_dim(Cases& cases) {
  const Pair table[] = {{kFloat32, kFloat64, kFloat32}, {kFloat16, kFloat64, kFloat16},
                        {kInt8, kInt64, kInt8},         {kInt64, kFloat16, kFloat16},
                        {kInt64, kFloat64, kFloat64},   {kBool, kInt16, kInt16},
                        {kFloat32, kInt64, kFloat32}};
  for (const Pair& pair : table)
    cases.add({.op = "add",
               .name = concat(pair.a, " and 0-dim ", pair.b),
               .inputs = {{.sizes = {3, 4}, .low = 0, .dtype = pair.a},
                          {.sizes = {}, .low = 0, .dtype = pair.b}},
               .run = [](In x) { return one(x[0] + x[1]); },
               .reference = sum_of,
               .dtypes = {kFloat32},
               .output_dtype = [result = pair.result](DType) { return result; }});
}

void add_numbers(Cases& cases) {
  struct Row {
    const char* name;
    Scalar number;
    DType dtype, result;
  };
  const Row table[] = {{"float", 1.5, kInt64, kFloat32},   {"float", 1.5, kBool, kFloat32},
                       {"float", 1.5, kFloat16, kFloat16}, {"float", 1.5, kFloat64, kFloat64},
                       {"integer", 2, kInt8, kInt8},       {"integer", 2, kBool, kInt64},
                       {"integer", 2, kFloat32, kFloat32}, {"bool", true, kInt16, kInt16},
                       {"bool", true, kBool, kBool}};
  for (const Row& row : table)
    for (const bool first : {false, true})
      cases.add({.op = "add",
                 .name = concat(row.name, first ? " before " : " after ", row.dtype),
                 .inputs = {{.sizes = {3, 4}, .low = 0, .dtype = row.dtype}},
                 .run = [number = row.number,
                         first](In x) { return one(first ? number + x[0] : x[0] + number); },
                 .reference =
                     [number = row.number.to<double>()](Arrays x) {
                       return map_elements(x, [&](const double* v) { return *v + number; });
                     },
                 .dtypes = {kFloat32},
                 .output_dtype = [result = row.result](DType) { return result; }});
}

// Numbers on the left of operators that do not commute.
void add_left_numbers(Cases& cases) {
  struct Row {
    const char* op;
    Tensor (*run)(const Tensor&);
    double (*formula)(double);
  };
  const Row table[] = {
      {"sub", [](const Tensor& x) { return 7 - x; }, [](double x) { return 7 - x; }},
      {"div", [](const Tensor& x) { return 7 / x; }, [](double x) { return 7 / x; }},
      {"remainder", [](const Tensor& x) { return 7 % x; },
       [](double x) { return std::fmod(7, x); }},
      {"mul", [](const Tensor& x) { return 7 * x; }, [](double x) { return 7 * x; }}};
  for (const Row& row : table)
    cases.add({.op = row.op,
               .name = "number on the left",
               .inputs = {{{3, 4}, 1, 3}},
               .run = [run = row.run](In x) { return one(run(x[0])); },
               .reference =
                   [formula = row.formula](Arrays x) {
                     return map_elements(x, [&](const double* v) { return formula(*v); });
                   }});
}

void add_compound_assignment(Cases& cases) {
  const auto steps = [](const Tensor& x) {
    x += 3;
    x *= 2;
    x -= 1;
    x /= 4;
    x %= 5;
  };
  cases.add({.op = "add",
             .name = "compound assignment",
             .inputs = {{{3, 4}}},
             .run =
                 [steps](In x) {
                   Tensor copy = clone(x[0]);
                   steps(copy);
                   return one(copy);
                 },
             .reference =
                 [](Arrays x) {
                   return map_elements(x, [](const double* v) {
                     const double result = ((*v + 3) * 2 - 1) / 4;
                     return result < 0 ? result + 5 : result;
                   });
                 },
             .inplace = [steps](In x) { steps(x[0]); }});
}

}  // namespace

void promotion_cases(Cases& cases) {
  add_tensors(cases);
  add_0_dim(cases);
  add_numbers(cases);
  add_left_numbers(cases);
  add_compound_assignment(cases);
}

}  // namespace tensora::suite
