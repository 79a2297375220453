#include "tensora/ops/quant/quant_linear.h"

#include "tests/suite/sample_weights.h"

namespace tensora::suite {
namespace {

using Weights = std::vector<std::shared_ptr<const SampleWeight>>;

std::shared_ptr<const SampleWeight> weight(DType dtype, int64_t rows, int64_t columns) {
  return std::make_shared<const SampleWeight>(dtype, rows, columns);
}

Out multiplied(In x, const Weights& weights, QuantLinearOptions options = {}) {
  std::vector<Tensor> data;
  for (const auto& each : weights) {
    data.push_back(each->placed());
    options.scales.push_back(each->placed_scale());
  }
  return one(quant_linear(x[0], data, options));
}

// The products side by side.
Array expected(const Array& x, const Weights& weights) {
  Shape sizes = x.sizes;
  const int64_t rows = sizes.numel() == 0 ? 0 : sizes.numel() / sizes.back();
  int64_t width = 0;
  for (const auto& each : weights) width += each->numbers.sizes[0];
  sizes[sizes.size() - 1] = width;
  Array out(sizes);
  int64_t begin = 0;
  for (const auto& each : weights) {
    const Array part = times_transposed(x, each->numbers);
    const int64_t n = each->numbers.sizes[0];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < n; ++j) out[r * width + begin + j] = part[r * n + j];
    begin += n;
  }
  return out;
}

void add(Cases& cases, std::string name, Input x, const Weights& weights,
         std::vector<DType> dtypes = activation_dtypes(), double tolerance = 4) {
  cases.add({.op = "quant_linear",
             .name = std::move(name),
             .inputs = {std::move(x)},
             .run = [weights](In in) { return multiplied(in, weights); },
             .reference = [weights](Arrays in) { return one(expected(in[0], weights)); },
             .dtypes = std::move(dtypes),
             .tolerance = tolerance,
             .opt_out = kNoGradient});
}

void add_dtypes(Cases& cases) {
  for (const DTypeInfo& info : dtype_info_table) {
    const DType dtype = info.dtype;
    const bool plain = dtype == kFloat32 || dtype == kFloat16 || dtype == kBFloat16 ||
                       dtype == kInt8 || dtype == kFloat8E4M3;
    if (!plain && !is_quantized(dtype)) continue;
    const auto w = weight(dtype, 37, 512);
    add(cases, concat(dtype, " one row"), exact_activations({512}), {w});
    add(cases, concat(dtype, " three rows"), exact_activations({3, 512}), {w});
    // Where a GPU unpacks weights to the activations' dtype, a number times its row's scale is
    // rounded.
    const bool scaled = dtype == kInt8 || dtype == kFloat8E4M3;
    add(cases, concat(dtype, " many rows"), exact_activations({2, 9, 512}), {w},
        activation_dtypes(), scaled ? 16 : 4);
    // Rounding x to 8 bits moves a number by 3 / 254 at most, and the sum of 512 products with
    // numbers up to 0.25 by 0.08, five times what is to be expected.
    add(cases, concat(dtype, " rounded"), {{3, 512}}, {w}, {kFloat32},
        is_quantized(dtype) || dtype == kInt8 ? 8000 : 8);
  }
}

void add_shapes(Cases& cases) {
  // Where the paths for few and for many rows meet, and where tiles do not divide the sizes.
  for (int64_t rows : {1, 2, 4, 5, 6, 131})
    for (DType dtype : {kQ8_0, kQ4_K, kFloat16})
      add(cases, concat(dtype, " ", rows, " rows"), exact_activations({rows, 256}),
          {weight(dtype, 5, 256)}, {kFloat32});
  for (int64_t columns : {32, 96, 288, 544})
    for (DType dtype : {kQ8_0, kQ4_0, kQ5_1, kMXFP4})
      add(cases, concat(dtype, " of ", columns), exact_activations({2, columns}),
          {weight(dtype, 3, columns)}, {kFloat32});
  for (int64_t columns : {1, 7, 77, 1030})
    for (DType dtype : {kFloat32, kFloat16, kBFloat16, kInt8, kFloat8E4M3})
      add(cases, concat(dtype, " of ", columns), exact_activations({3, columns}),
          {weight(dtype, 4, columns)}, {kFloat32}, dtype == kInt8 ? 2000 : 4);
  add(cases, "nf4 of 64", exact_activations({2, 64}), {weight(kNF4, 3, 64)}, {kFloat32});
  add(cases, "more than one task", exact_activations({1, 256}), {weight(kQ4_0, 700, 256)},
      {kFloat32});
  add(cases, "no rows", {{0, 64}}, {weight(kQ8_0, 3, 64)});
  add(cases, "no columns", {{2, 64}}, {weight(kQ8_0, 0, 64)});
  add(cases, "no numbers", {{2, 0}}, {weight(kFloat32, 3, 0)}, {kFloat32});
}

void add_options(Cases& cases) {
  const Weights three = {weight(kQ4_K, 33, 512), weight(kQ8_0, 7, 512), weight(kFloat16, 5, 512)};
  add(cases, "three weights", exact_activations({3, 512}), three);
  add(cases, "int8, q6_k and float8_e4m3fn", exact_activations({1, 512}),
      {weight(kInt8, 6, 512), weight(kQ6_K, 7, 512), weight(kFloat8E4M3, 5, 512)});
  cases.add({.op = "quant_linear",
             .name = "bias, residual and another dtype",
             .inputs = {exact_activations({3, 512}), {{45}}, {{3, 45}}},
             .run =
                 [three](In in) {
                   return multiplied(in, three,
                                     {.bias = in[1], .residual = in[2], .dtype = kFloat32});
                 },
             .reference =
                 [three](Arrays in) {
                   Array out = expected(in[0], three);
                   for (int64_t i = 0; i < out.numel(); ++i) out[i] += in[1][i % 45] + in[2][i];
                   return one(out);
                 },
             .dtypes = activation_dtypes(),
             .output_dtype = [](DType) { return kFloat32; },
             .tolerance = 4,
             .opt_out = kNoGradient});
  // One row that is not a number does not touch the others.
  Input strange = exact_activations({6, 512});
  strange.values[700] = std::nan("");
  for (DType dtype : {kQ4_0, kQ4_K, kFloat16})
    add(cases, concat("not a number, ", dtype), strange, {weight(dtype, 3, 512)}, {kFloat32});
}

}  // namespace

void quant_linear_cases(Cases& cases) {
  add_dtypes(cases);
  add_shapes(cases);
  add_options(cases);
  const auto make = [](DType dtype, const Shape& sizes) {
    return zeros(sizes, {.dtype = dtype, .device = device()});
  };
  const auto call = [make](const Tensor& x, std::vector<Tensor> weights,
                           QuantLinearOptions options = {}) { quant_linear(x, weights, options); };
  cases.error("quant_linear", "no weights", "quant_linear: expected 1 to 3 weights, got 0", [=] {
    call(make(kFloat32, {2, 4}), {});
  });
  cases.error("quant_linear", "width",
              "quant_linear: weight 1 of shape [3, 5] does not fit activations of shape [2, 4]",
              [=] {
                call(make(kFloat32, {2, 4}), {make(kFloat32, {3, 4}), make(kFloat32, {3, 5})});
              });
  cases.error("quant_linear", "integers", "quant_linear: not supported for int64", [=] {
    call(make(kInt64, {2, 4}), {make(kFloat32, {3, 4})});
  });
  cases.error("quant_linear", "x of int8", "x must be float32, float16 or bfloat16, got int8", [=] {
    call(make(kInt8, {2, 4}), {make(kFloat32, {3, 4})});
  });
  cases.error("quant_linear", "no scales", "weight 0 of dtype int8 needs a scale for each row",
              [=] {
                call(make(kFloat32, {2, 4}), {make(kInt8, {3, 4})});
              });
  cases.error(
      "quant_linear", "needless scales",
      "weight 0 of dtype float16 has its scales in itself; got others", [=] {
        call(make(kFloat32, {2, 4}), {make(kFloat16, {3, 4})}, {.scales = {make(kFloat32, {3})}});
      });
  cases.error(
      "quant_linear", "scales",
      "the scales of weight 0 must be float32 of shape [3], got float32 [4]", [=] {
        call(make(kFloat32, {2, 4}), {make(kInt8, {3, 4})}, {.scales = {make(kFloat32, {4})}});
      });
  cases.error("quant_linear", "bias", "bias must have shape [3], got [4]", [=] {
    call(make(kFloat32, {2, 4}), {make(kFloat32, {3, 4})}, {.bias = make(kFloat32, {4})});
  });
  cases.error("quant_linear", "residual", "residual must have shape [2, 3], got [3, 2]", [=] {
    call(make(kFloat32, {2, 4}), {make(kFloat32, {3, 4})}, {.residual = make(kFloat32, {3, 2})});
  });
  cases.error("quant_linear", "dtype", "the result can be float32, float16 or bfloat16, not int8",
              [=] {
                call(make(kFloat32, {2, 4}), {make(kFloat32, {3, 4})}, {.dtype = kInt8});
              });
}

}  // namespace tensora::suite
