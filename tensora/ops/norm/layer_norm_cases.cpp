#include "tensora/ops/norm/layer_norm.h"

#include <cmath>
#include <numeric>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// The rows of x, normalised; an array without elements stands for a parameter that was left out.
Array normalised(const Array& x, int64_t n, double eps, bool centre, const Array& weight,
                 const Array& bias) {
  Array out(x.sizes);
  for (int64_t start = 0; n > 0 && start < x.numel(); start += n) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; ++i) mean += centre ? x[start + i] / double(n) : 0;
    for (int64_t i = 0; i < n; ++i) square += std::pow(x[start + i] - mean, 2) / double(n);
    for (int64_t i = 0; i < n; ++i)
      out[start + i] =
          (x[start + i] - mean) / std::sqrt(square + eps) * (weight.sizes.empty() ? 1 : weight[i]) +
          (bias.sizes.empty() ? 0 : bias[i]);
  }
  return out;
}

struct Sample {
  const char* name;
  Shape sizes, rows;
  std::vector<DType> dtypes = floating_dtypes();
};

std::vector<Sample> samples() {
  const std::vector<DType> narrow = {kFloat16, kBFloat16, kFloat32};
  return {{"rows", {4, 9}, {9}},
          {"one row", {17}, {17}},
          {"two dims", {3, 4, 5}, {4, 5}},
          {"whole tensor", {3, 4}, {3, 4}},
          {"no rows", {0, 4}, {4}},
          {"no elements in a row", {3, 0}, {0}},
          {"many rows", {9, 70, 33}, {33}},
          {"packs", {5, 640}, {640}},
          // Around the lengths at which CUDA changes the threads that hold a row; elements of 16
          // bits are held as they lie in memory if they fill whole loads.
          {"rows of 1032", {9, 1032}, {1032}, narrow},
          {"rows of 2048", {5, 2048}, {2048}, narrow},
          {"rows of 2056", {5, 2056}, {2056}, narrow},
          {"rows of 4096", {3, 4096}, {4096}, narrow},
          {"rows of 4104", {3, 4104}, {4104}, narrow},
          {"rows of 4100", {3, 4100}, {4100}, narrow},
          {"long rows", {3, 9000}, {9000}, {kFloat32, kBFloat16}},
          {"very long rows", {2, 20000}, {20000}, {kFloat32}}};
}

void add_layer_norms(Cases& cases) {
  for (const Sample& sample : samples()) {
    const int64_t n = sample.rows.numel();
    const auto add = [&](std::string name, int parameters) {
      std::vector<Input> inputs = {{sample.sizes}};
      for (int k = 0; k < parameters; ++k) inputs.push_back({sample.rows});
      cases.add({.op = "layer_norm",
                 .name = concat(sample.name, name),
                 .inputs = inputs,
                 .run =
                     [rows = sample.rows](In x) {
                       return one(layer_norm(x[0], rows, x.size() > 1 ? x[1] : Tensor(),
                                             x.size() > 2 ? x[2] : Tensor(), 1e-3));
                     },
                 .reference =
                     [n](Arrays x) {
                       return one(normalised(x[0], n, 1e-3, true, x.size() > 1 ? x[1] : Array(),
                                             x.size() > 2 ? x[2] : Array()));
                     },
                 .dtypes = sample.dtypes,
                 .tolerance = 4});
    };
    add("", 2);
    if (n < 50) add(" without parameters", 0);
    if (n == 9) add(" without bias", 1);
    cases.add({.op = "rms_norm",
               .name = sample.name,
               .inputs = {{sample.sizes}, {sample.rows}},
               .run = [rows = sample.rows](In x) { return one(rms_norm(x[0], rows, x[1], 1e-3)); },
               .reference =
                   [n](Arrays x) { return one(normalised(x[0], n, 1e-3, false, x[1], Array())); },
               .dtypes = sample.dtypes,
               .tolerance = 4});
  }
}

void add_special(Cases& cases) {
  cases.add(
      {.op = "layer_norm",
       .name = "float32 parameters",
       .inputs = {{{6, 40}}, {{40}, -3, 3, kFloat32}, {{40}, -3, 3, kFloat32}},
       .run = [](In x) { return one(layer_norm(x[0], {40}, x[1], x[2])); },
       .reference = [](Arrays x) { return one(normalised(x[0], 40, 1e-5, true, x[1], x[2])); },
       .tolerance = 4});
  // A mean far from zero: sums of squares would have lost all digits.
  std::vector<double> far(64);
  for (size_t i = 0; i < 64; ++i) far[i] = 4096 + double(i % 7) / 8;
  cases.add({.op = "layer_norm",
             .name = "far from zero",
             .inputs = {{.sizes = {2, 32}, .values = far}},
             .run = [](In x) { return one(layer_norm(x[0], {32})); },
             .reference = [](Arrays x) { return one(normalised(x[0], 32, 1e-5, true, {}, {})); },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 100});
  cases.add({.op = "rms_norm",
             .name = "the epsilon of the type",
             .inputs = {{.sizes = {2, 4}, .values = {1e-4, 2e-4, 0, 1e-4, 0, 0, 0, 0}}},
             .run = [](In x) { return one(rms_norm(x[0], {4})); },
             .reference =
                 [](Arrays x) {
                   const double eps = dtype() == kFloat64 ? 0x1p-52 : 0x1p-23;
                   return one(normalised(x[0], 4, eps, false, {}, {}));
                 },
             .opt_out = {{Mode::grad, "steeper than finite differences can tell"}}});
  for (const Shape& sizes : {Shape{4096, 4096}, Shape{65536, 256}})
    cases.add({.op = "layer_norm",
               .name = concat("large ", sizes),
               .inputs = {{sizes}, {{sizes[1]}}, {{sizes[1]}}},
               .run = [](In x) { return one(layer_norm(x[0], x[1].sizes(), x[1], x[2])); },
               .dtypes = {kFloat32, kBFloat16},
               .big = true});
}

// What add_layer_norm and add_rms_norm return: the result and the sum.
ArrayList sums_and_results(Arrays x, bool centre, int64_t n, double eps, bool input_bias) {
  Array sum(x[0].sizes);
  for (int64_t i = 0; i < sum.numel(); ++i)
    sum[i] = x[0][i] + x[1][i] + (input_bias ? x[x.size() - 1][i % n] : 0);
  return {normalised(sum, n, eps, centre, x[2], centre ? x[3] : Array()), sum};
}

void add_residual(Cases& cases) {
  for (const Shape& sizes : {Shape{5, 12}, Shape{40, 3, 130}, Shape{0, 4}, Shape{3, 9000}})
    for (const bool input_bias : {false, true}) {
      const int64_t n = sizes.back();
      const auto last = [](In x) { return x[x.size() - 1]; };
      std::vector<Input> inputs = {{sizes}, {sizes}, {{n}}, {{n}}};
      if (input_bias) inputs.push_back({{n}});
      const std::string name = concat(sizes, input_bias ? " with bias" : "");
      const auto dtypes = n > 1000 ? std::vector{kFloat32, kBFloat16} : floating_dtypes();
      cases.add(
          {.op = "add_layer_norm",
           .name = name,
           .inputs = inputs,
           .run =
               [=](In x) {
                 const auto [y, sum] = add_layer_norm(x[0], x[1], {n}, x[2], x[3], 1e-3,
                                                      input_bias ? last(x) : Tensor(), 0.5, false);
                 return Out{y, sum};
               },
           .reference = [=](Arrays x) { return sums_and_results(x, true, n, 1e-3, input_bias); },
           .dtypes = dtypes,
           .tolerance = 6});
      inputs.erase(inputs.begin() + 3);
      cases.add(
          {.op = "add_rms_norm",
           .name = name,
           .inputs = inputs,
           .run =
               [=](In x) {
                 const auto [y, sum] =
                     add_rms_norm(x[0], x[1], {n}, x[2], 1e-3, input_bias ? last(x) : Tensor());
                 return Out{y, sum};
               },
           .reference = [=](Arrays x) { return sums_and_results(x, false, n, 1e-3, input_bias); },
           .dtypes = dtypes,
           .tolerance = 6});
    }
}

// A wide residual stream beside narrow activations.
void add_mixed(Cases& cases) {
  for (const Shape& sizes : {Shape{5, 24}, Shape{3, 700}, Shape{2, 3001}}) {
    const int64_t n = sizes.back();
    const auto wide = [](const Tensor& x) {
      return to(x, x.dtype() == kFloat64 ? kFloat64 : kFloat32);
    };
    cases.add({.op = "add_layer_norm",
               .name = concat("wide residual ", sizes),
               .inputs = {{sizes}, {sizes}, {{n}}, {{n}}},
               .run =
                   [=](In x) {
                     const auto [y, sum] = add_layer_norm(x[0], wide(x[1]), {n}, x[2], x[3], 1e-3,
                                                          {}, 0, true, x[0].dtype());
                     return Out{y, to(sum, x[0].dtype())};
                   },
               .reference = [=](Arrays x) { return sums_and_results(x, true, n, 1e-3, false); },
               .dtypes = floating_dtypes(),
               .tolerance = 6});
    cases.add({.op = "add_rms_norm",
               .name = concat("wide residual ", sizes),
               .inputs = {{sizes}, {sizes}, {{n}}},
               .run =
                   [=](In x) {
                     const auto [y, sum] =
                         add_rms_norm(x[0], wide(x[1]), {n}, x[2], 1e-3, {}, 0, true, x[0].dtype());
                     return Out{y, to(sum, x[0].dtype())};
                   },
               .reference = [=](Arrays x) { return sums_and_results(x, false, n, 1e-3, false); },
               .dtypes = floating_dtypes(),
               .tolerance = 6});
  }
}

// Dropout: the mask is the one that bernoulli_ draws.
void add_dropout(Cases& cases) {
  for (const Shape& sizes : {Shape{7, 50}, Shape{3, 3000}})
    cases.add({.op = "add_layer_norm",
               .name = concat("dropout ", sizes),
               .inputs = {{sizes}, {sizes}, {{sizes[1]}}, {{sizes[1]}}, {{sizes[1]}}},
               .run =
                   [sizes](In x) {
                     Generator random(3);
                     const GeneratorScope scope(random);
                     const auto [y, sum] =
                         add_layer_norm(x[0], x[1], {sizes[1]}, x[2], x[3], 1e-3, x[4], 0.25);
                     random.manual_seed(3);
                     const Tensor mask = empty(sizes, {.dtype = x[0].dtype(), .device = device()});
                     bernoulli_(mask, 0.75);
                     const Tensor expected = (x[0] + x[4]) * mask / 0.75 + x[1];
                     return Out{y - layer_norm(expected, {sizes[1]}, x[2], x[3], 1e-3),
                                sum - expected, y};
                   },
               .reference = nullptr,
               .dtypes = {kFloat32, kFloat64},
               .opt_out = {{Mode::value, "the next case looks at the values"},
                           {Mode::jit, "sets the seed"}}});
  cases.add({.op = "add_rms_norm",
             .name = "dropout against its definition",
             .inputs = {{{40, 50}}, {{40, 50}}, {{50}}},
             .run =
                 [](In x) {
                   Generator random(3);
                   const GeneratorScope scope(random);
                   const auto [y, sum] = add_rms_norm(x[0], x[1], {50}, x[2], 1e-3, {}, 0.25);
                   random.manual_seed(3);
                   const Tensor mask = empty({40, 50}, {.dtype = x[0].dtype(), .device = device()});
                   bernoulli_(mask, 0.75);
                   const Tensor expected = x[0] * mask / 0.75 + x[1];
                   return Out{y - rms_norm(expected, {50}, x[2], 1e-3), sum - expected};
                 },
             .reference =
                 [](Arrays x) {
                   return ArrayList{Array(x[0].sizes), Array(x[0].sizes)};
                 },
             .dtypes = {kFloat32, kFloat64},
             .opt_out = {{Mode::jit, "sets the seed"}}});
  cases.add({.op = "add_rms_norm",
             .name = "everything dropped",
             .inputs = {{{4, 6}}, {{4, 6}}, {{6}}},
             .run =
                 [](In x) {
                   const auto [y, sum] = add_rms_norm(x[0], x[1], {6}, x[2], 1e-3, {}, 1);
                   return Out{y, sum};
                 },
             .reference =
                 [](Arrays x) {
                   return ArrayList{normalised(x[1], 6, 1e-3, false, x[2], {}), x[1]};
                 },
             .tolerance = 4});
}

}  // namespace

void layer_norm_cases(Cases& cases) {
  add_layer_norms(cases);
  add_special(cases);
  add_residual(cases);
  add_mixed(cases);
  add_dropout(cases);
  cases.error("layer_norm", "another shape", "whose last sizes are [3], got shape [3, 4]", [] {
    layer_norm(zeros({3, 4}), {3});
  });
  cases.error("layer_norm", "no shape", "normalized_shape must not be empty", [] {
    layer_norm(zeros({3, 4}), {});
  });
  cases.error("layer_norm", "weight of another shape", "weight must have shape [4], got [3]", [] {
    layer_norm(zeros({3, 4}), {4}, zeros({3}));
  });
  cases.error("layer_norm", "integers", "expected a floating-point input, got int64", [] {
    layer_norm(zeros({3, 4}, {.dtype = kInt64}), {4});
  });
  cases.error("rms_norm", "weight of another shape", "weight must have shape [4], got [1]", [] {
    rms_norm(zeros({3, 4}), {4}, zeros({1}));
  });
  cases.error("add_rms_norm", "residual of another shape", "input and residual must have one shape",
              [] {
                add_rms_norm(zeros({3, 4}), zeros({4}), {4});
              });
  cases.error("add_layer_norm", "p out of range", "expected p between 0 and 1", [] {
    add_layer_norm(zeros({3, 4}), zeros({3, 4}), {4}, {}, {}, 1e-5, {}, 1.5);
  });
}

}  // namespace tensora::suite
