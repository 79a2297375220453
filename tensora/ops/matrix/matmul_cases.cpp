#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// a: … m k, b: … k n, with broadcast batch dims.
Array multiply(const Array& a, const Array& b) {
  const auto batch = [](const Array& x) {
    Shape sizes = x.sizes;
    sizes.resize(x.sizes.size() - 2);
    return sizes;
  };
  Shape sizes = broadcast_shapes(batch(a), batch(b), "reference");
  const int dims = sizes.size();
  const int64_t m = a.sizes[a.sizes.size() - 2], k = a.sizes.back(), n = b.sizes.back();
  Shape a_sizes = sizes, b_sizes = sizes;
  for (int64_t size : {m, k}) a_sizes.push_back(size);
  for (int64_t size : {k, n}) b_sizes.push_back(size);
  const Array wide_a = a.broadcast_to(a_sizes), wide_b = b.broadcast_to(b_sizes);
  for (int64_t size : {m, n}) sizes.push_back(size);
  Array out(sizes);
  Array::each(sizes, [&](const Shape& index) {
    double sum = 0;
    Shape left = index, right = index;
    for (int64_t i = 0; i < k; ++i) {
      left[dims + 1] = i;
      right[dims] = i;
      sum += wide_a.at(left) * wide_b.at(right);
    }
    out.at(index) = sum;
  });
  return out;
}

Array reshaped(Array array, const Shape& sizes) {
  array.sizes = sizes;
  return array;
}

// Vectors become matrices, and the added dims are dropped again.
Array matmul_reference(const Array& a, const Array& b) {
  const bool a_vector = a.sizes.size() == 1, b_vector = b.sizes.size() == 1;
  Array out = multiply(a_vector ? reshaped(a, {1, a.sizes[0]}) : a,
                       b_vector ? reshaped(b, {b.sizes[0], 1}) : b);
  Shape sizes = out.sizes;
  if (b_vector) sizes.erase(sizes.size() - 1);
  if (a_vector) sizes.erase(sizes.size() - (b_vector ? 1 : 2));
  return reshaped(out, sizes);
}

// The same for two plain matrices, fast enough for large ones.
Array large_reference(const Array& a, const Array& b) {
  const int64_t m = a.sizes[0], k = a.sizes[1], n = b.sizes[1];
  Array out({m, n});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t depth = 0; depth < k; ++depth)
      for (int64_t j = 0; j < n; ++j) out[i * n + j] += a[i * k + depth] * b[depth * n + j];
  return out;
}

// Products that are split over threads, by each of the ways: few rows, a large b, columns, rows,
// slices of k; those from 96 cubed and from 384 cubed on may go to a library.
void add_large_products(Cases& cases) {
  struct Sample {
    int64_t m, n, k;
    std::vector<DType> dtypes;
  };
  const std::vector<DType> wide = {kFloat32, kFloat64};
  const Sample samples[] = {
      {4, 1500, 300, floating_dtypes()},
      {40, 700, 300, floating_dtypes()},
      {100, 90, 100, {kBFloat16, kFloat32, kFloat64, kInt16, kInt64}},
      {200, 210, 190, floating_dtypes()},
      {33, 40, 5000, wide},
      {400, 390, 385, wide},
  };
  for (const Sample& s : samples)
    cases.add({.op = "matmul",
               .name = concat("large ", s.m, " x ", s.n, " x ", s.k),
               .inputs = {{.sizes = {s.m, s.k}, .low = -2, .high = 2},
                          {.sizes = {s.k, s.n}, .low = -2, .high = 2}},
               .run = [](In x) { return one(matmul(x[0], x[1])); },
               .reference = [](Arrays x) { return one(large_reference(x[0], x[1])); },
               .dtypes = s.dtypes,
               .tolerance = 16,
               .opt_out = {{Mode::grad,
                            "differences along 10,000 elements would take minutes; the "
                            "gradient is two products, which the other modes check"}}});
}

void add_products(Cases& cases) {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 4}, {4, 5}},    {{1, 7}, {7, 1}},       {{17, 33}, {33, 19}},
      {{4}, {4}},          {{4}, {4, 3}},          {{3, 4}, {4}},
      {{2, 3, 4}, {4, 5}}, {{2, 3, 4}, {2, 4, 5}}, {{2, 1, 3, 4}, {5, 4, 2}},
      {{3, 4}, {2, 4, 5}}, {{2, 3, 4}, {4}},       {{0, 4}, {4, 3}},
      {{3, 0}, {0, 2}},    {{0, 3, 4}, {4, 2}},    {{64, 48}, {48, 80}},
  };
  for (const auto& [a, b] : shapes)
    cases.add({.op = "matmul",
               .name = concat(a, " x ", b),
               .inputs = {{.sizes = a, .low = -2, .high = 2}, {.sizes = b, .low = -2, .high = 2}},
               .run = [](In x) { return one(matmul(x[0], x[1])); },
               .reference = [](Arrays x) { return one(matmul_reference(x[0], x[1])); },
               .dtypes = number_dtypes(),
               .tolerance = 4});
  cases.add({.op = "bmm",
             .name = "batch of three",
             .inputs = {{{3, 2, 4}}, {{3, 4, 5}}},
             .run = [](In x) { return one(bmm(x[0], x[1])); },
             .reference = [](Arrays x) { return one(multiply(x[0], x[1])); },
             .tolerance = 4});
  cases.add({.op = "outer",
             .name = "3 by 4",
             .inputs = {{{3}}, {{4}}},
             .run = [](In x) { return one(outer(x[0], x[1])); },
             .reference =
                 [](Arrays x) {
                   return one(multiply(reshaped(x[0], {3, 1}), reshaped(x[1], {1, 4})));
                 }});
}

Array addmm_reference(Arrays x, double beta, double alpha) {
  Array out = multiply(x[1], x[2]);
  const Array input = x[0].broadcast_to(out.sizes);
  for (int64_t i = 0; i < out.numel(); ++i)
    out[i] = (beta == 0 ? 0 : beta * input[i]) + alpha * out[i];
  return out;
}

void add_fused(Cases& cases) {
  struct Sample {
    Shape input, a, b;
    double beta, alpha;
  };
  const Sample samples[] = {{{3, 5}, {3, 4}, {4, 5}, 1, 1},  {{5}, {3, 4}, {4, 5}, 1, 1},
                            {{3, 1}, {3, 4}, {4, 5}, 2, -3}, {{}, {3, 4}, {4, 5}, 0.5, 2},
                            {{3, 5}, {3, 4}, {4, 5}, 0, 1},  {{2}, {3, 0}, {0, 2}, 1, 1}};
  for (const Sample& s : samples) {
    const Scalar beta = s.beta, alpha = s.alpha;
    const bool fits = s.input.size() == 2 && s.input[1] == s.b[1] && s.input[0] == s.a[0];
    cases.add({.op = "addmm",
               .name = concat(s.input, " beta ", s.beta, " alpha ", s.alpha),
               .inputs = {{s.input}, {s.a}, {s.b}},
               .run = [=](In x) { return one(addmm(x[0], x[1], x[2], beta, alpha)); },
               .reference = [=](Arrays x) { return one(addmm_reference(x, s.beta, s.alpha)); },
               .inplace = fits ? std::function<void(In)>(
                                     [=](In x) { x[0].addmm_(x[1], x[2], beta, alpha); })
                               : nullptr,
               .tolerance = 4});
  }
  cases.add({.op = "baddbmm",
             .name = "batch of two",
             .inputs = {{{2, 3, 5}}, {{2, 3, 4}}, {{2, 4, 5}}},
             .run = [](In x) { return one(baddbmm(x[0], x[1], x[2])); },
             .reference = [](Arrays x) { return one(addmm_reference(x, 1, 1)); },
             .inplace = [](In x) { x[0].baddbmm_(x[1], x[2]); },
             .tolerance = 4});
  cases.add(
      {.op = "addmv",
       .name = "3 by 4",
       .inputs = {{{3}}, {{3, 4}}, {{4}}},
       .run = [](In x) { return one(addmv(x[0], x[1], x[2])); },
       .reference =
           [](Arrays x) {
             const ArrayList as_matrices = {reshaped(x[0], {3, 1}), x[1], reshaped(x[2], {4, 1})};
             return one(reshaped(addmm_reference(as_matrices, 1, 1), {3}));
           },
       .tolerance = 4});
  cases.add(
      {.op = "addr",
       .name = "3 by 4",
       .inputs = {{{3, 4}}, {{3}}, {{4}}},
       .run = [](In x) { return one(addr(x[0], x[1], x[2], 2, 3)); },
       .reference =
           [](Arrays x) {
             const ArrayList as_matrices = {x[0], reshaped(x[1], {3, 1}), reshaped(x[2], {1, 4})};
             return one(addmm_reference(as_matrices, 2, 3));
           }});
  for (const Shape& input : {Shape{4}, Shape{3, 4}, Shape{2, 3, 4}, Shape{0, 4}})
    cases.add(
        {.op = "linear",
         .name = concat("input ", input),
         .inputs = {{input}, {{5, 4}}, {{5}}},
         .run = [](In x) { return one(linear(x[0], x[1], x[2])); },
         .reference =
             [](Arrays x) {
               Array turned(Shape{4, 5});
               Array::each({4, 5}, [&](const Shape& i) { turned.at(i) = x[1].at({i[1], i[0]}); });
               Array out = matmul_reference(x[0], turned);
               const Array bias = x[2].broadcast_to(out.sizes);
               for (int64_t i = 0; i < out.numel(); ++i) out[i] += bias[i];
               return one(out);
             },
         .tolerance = 4});
}

void add_corners(Cases& cases) {
  cases.add({.op = "linear",
             .name = "no input features",
             .inputs = {{{2, 3, 0}}, {{4, 0}}, {{4}}},
             .run = [](In x) { return one(linear(x[0], x[1], x[2])); },
             .reference =
                 [](Arrays x) {
                   return one(x[2].broadcast_to({2, 3, 4}));
                 }});
  const auto outer_of = [](Arrays x) {
    return one(addmm_reference(
        std::array{x[0], reshaped(x[1], {x[1].numel(), 1}), reshaped(x[2], {1, x[2].numel()})}, 2,
        3));
  };
  const auto add_outer = [&](DType self, DType vec1, DType vec2, DType result) {
    cases.add({.op = "addr",
               .name = concat(self, ", ", vec1, " and ", vec2),
               .inputs = {{.sizes = {3, 2}, .low = 0, .dtype = self},
                          {.sizes = {3}, .low = 0, .dtype = vec1},
                          {.sizes = {2}, .low = 0, .dtype = vec2}},
               .run = [](In x) { return one(addr(x[0], x[1], x[2], 2, 3)); },
               .reference = outer_of,
               .dtypes = {kFloat32},
               .output_dtype = [result](DType) { return result; },
               .tolerance = 4});
  };
  add_outer(kInt64, kFloat32, kInt8, kFloat32);
  add_outer(kInt8, kInt8, kInt64, kInt64);
  add_outer(kFloat32, kInt64, kFloat64, kFloat64);
  cases.add({.op = "addr",
             .name = "bool",
             .inputs = {{.sizes = {2, 2}, .values = {0, 1, 0, 0}},
                        {.sizes = {2}, .values = {1, 0}},
                        {.sizes = {2}, .values = {1, 0}}},
             .run = [](In x) { return one(addr(x[0], x[1], x[2])); },
             .reference =
                 [](Arrays) {
                   Array result({2, 2});
                   result.values = {1, 1, 0, 0};
                   return one(result);
                 },
             .dtypes = {kBool},
             .opt_out = {{Mode::view, "the expected result belongs to these very values"}}});
  cases.error("addr", "a float alpha for integers", "must be integers", [] {
    addr(zeros({1, 1}, {.dtype = kInt64}), zeros({1}, {.dtype = kInt64}),
         zeros({1}, {.dtype = kInt64}), 1, 1.5);
  });
  // One row, whose stride is anything: row-major all the same.
  cases.add(
      {.op = "addmm",
       .name = "into a transposed column",
       .inputs = {{{5, 1}}, {{1, 3}}, {{3, 5}}},
       .run =
           [](In x) {
             const Tensor target = transpose(clone(x[0]), 0, 1);
             return one(addmm_(target, x[1], x[2], 2, 0.5));
           },
       .reference =
           [](Arrays x) {
             return one(addmm_reference(std::array{reshaped(x[0], {1, 5}), x[1], x[2]}, 2, 0.5));
           },
       .tolerance = 4});
}

void add_errors(Cases& cases) {
  cases.error("matmul", "inner sizes differ", "cannot be multiplied", [] {
    matmul(zeros({2, 3}), zeros({4, 5}));
  });
  cases.error("matmul", "0-dim", "at least one dimension", [] {
    matmul(zeros({}), zeros({4, 5}));
  });
  cases.error("matmul", "dtypes differ", "one dtype", [] {
    matmul(zeros({2, 3}), zeros({3, 2}, {.dtype = kFloat64}));
  });
  cases.error("matmul", "bool", "bool tensors are not supported", [] {
    matmul(zeros({2, 3}, {.dtype = kBool}), zeros({3, 2}, {.dtype = kBool}));
  });
  cases.error("matmul", "batches differ", "cannot be broadcast together", [] {
    matmul(zeros({2, 3, 4}), zeros({3, 4, 5}));
  });
  cases.error("mm", "not a matrix", "must have 2 dimensions", [] {
    mm(zeros({2}), zeros({2, 2}));
  });
  cases.error("bmm", "batches differ", "the batches differ", [] {
    bmm(zeros({2, 3, 4}), zeros({3, 4, 5}));
  });
  cases.error("mv", "not a vector", "must have 1 dimensions", [] {
    mv(zeros({2, 2}), zeros({2, 2}));
  });
  cases.error("dot", "not vectors", "must have 1 dimensions", [] {
    dot(zeros({2, 2}), zeros({2}));
  });
  cases.error("addmm", "input does not broadcast", "does not broadcast", [] {
    addmm(zeros({3}), zeros({2, 3}), zeros({3, 2}));
  });
  cases.error("linear", "sizes differ", "does not fit weight", [] {
    linear(zeros({2, 3}), zeros({5, 4}));
  });
  cases.error("linear", "bias", "bias must have shape", [] {
    linear(zeros({2, 4}), zeros({5, 4}), zeros({4}));
  });
}

}  // namespace

void matmul_cases(Cases& cases) {
  add_products(cases);
  add_large_products(cases);
  add_fused(cases);
  add_corners(cases);
  add_errors(cases);
}

}  // namespace tensora::suite
