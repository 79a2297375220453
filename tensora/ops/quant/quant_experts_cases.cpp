#include "tensora/ops/quant/quant_experts.h"

#include "tests/suite/sample_weights.h"

namespace tensora::suite {
namespace {

using Sample = std::shared_ptr<const SampleWeight>;

struct Layer {
  int64_t experts = 4, used = 2, columns = 256, inner = 256, results = 37;
  Activation activation = Activation::silu;
  DType gate_dtype = kFloat32, up_dtype = kFloat32, down_dtype = kFloat32;
  Sample gate = {}, up = {}, down = {};

  void fill() {
    gate = std::make_shared<const SampleWeight>(gate_dtype, experts * inner, columns, 1);
    up = std::make_shared<const SampleWeight>(up_dtype, experts * inner, columns, 2);
    down = std::make_shared<const SampleWeight>(down_dtype, experts * results, inner, 3);
  }
};

double activated(Activation activation, double x) {
  if (activation == Activation::silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

Out computed(In in, const Layer& l, std::optional<DType> dtype = {}) {
  return one(quant_experts(in[0], in[1], in[2], l.gate->placed(), l.up->placed(), l.down->placed(),
                           l.experts,
                           {.activation = l.activation,
                            .gate_scale = l.gate->placed_scale(),
                            .up_scale = l.up->placed_scale(),
                            .down_scale = l.down->placed_scale(),
                            .residual = in.size() > 3 ? in[3] : Tensor(),
                            .dtype = dtype}));
}

Array expected(Arrays in, const Layer& l) {
  const int64_t tokens = in[0].sizes[0];
  Array out({tokens, l.results});
  if (in.size() > 3) out = in[3];
  const auto dot = [](const Array& w, int64_t row, const double* x) {
    const int64_t k = w.sizes[1];
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += w[row * k + i] * x[i];
    return sum;
  };
  for (int64_t i = 0; i < tokens * l.used; ++i) {
    const auto expert = static_cast<int64_t>(in[1][i]);
    const double* const x = in[0].values.data() + i / l.used * l.columns;
    std::vector<double> inner(static_cast<size_t>(l.inner));
    for (int64_t n = 0; n < l.inner; ++n)
      inner[static_cast<size_t>(n)] =
          activated(l.activation, dot(l.gate->numbers, expert * l.inner + n, x)) *
          dot(l.up->numbers, expert * l.inner + n, x);
    for (int64_t m = 0; m < l.results; ++m)
      out[i / l.used * l.results + m] +=
          in[2][i] * dot(l.down->numbers, expert * l.results + m, inner.data());
  }
  return out;
}

// The last expert is never chosen, and the first one often.
std::vector<Input> inputs_of(const Layer& l, int64_t tokens) {
  Input x = exact_activations({tokens, l.columns});
  // The samples of int8 and float8_e4m3fn are larger numbers.
  const bool large = l.gate->scale.defined();
  for (double& value : x.values) value /= large ? 64 : 8;
  Input chosen{{tokens, l.used}, 0, 1, kInt64}, weights{{tokens, l.used}, 0, 1, kFloat32};
  const int64_t others = std::max<int64_t>(1, l.experts - 1);
  for (int64_t i = 0; i < tokens * l.used; ++i) {
    const int64_t token = i / l.used, place = i % l.used;
    chosen.values.push_back(static_cast<double>((token * token % 3 + place) % others));
    weights.values.push_back(static_cast<double>(1 + (i * 7 + 3) % 5) / 8);
  }
  return {x, chosen, weights};
}

void add(Cases& cases, std::string name, Layer layer, int64_t tokens) {
  layer.fill();
  const auto case_of = [&](std::string label, std::vector<DType> dtypes, double tolerance) {
    cases.add({.op = "quant_experts",
               .name = std::move(label),
               .inputs = inputs_of(layer, tokens),
               .run = [layer](In in) { return computed(in, layer); },
               .reference = [layer](Arrays in) { return one(expected(in, layer)); },
               .dtypes = std::move(dtypes),
               .tolerance = tolerance,
               .opt_out = kNoGradient});
  };
  // What lies between the products is rounded to 8 bits before a quantized matrix.
  const bool rounds = is_quantized(layer.down_dtype) || layer.down_dtype == kInt8;
  case_of(name, {kFloat32}, rounds ? 4000 : 16);
  case_of(name + ", 16 bits", {kFloat16, kBFloat16}, 24);
}

Layer layer_of(DType dtype) {
  return {.gate_dtype = dtype, .up_dtype = dtype, .down_dtype = dtype};
}

void add_dtypes(Cases& cases) {
  for (const DTypeInfo& info : dtype_info_table) {
    const DType dtype = info.dtype;
    const bool plain = dtype == kFloat32 || dtype == kFloat16 || dtype == kBFloat16 ||
                       dtype == kInt8 || dtype == kFloat8E4M3;
    if (!plain && !is_quantized(dtype)) continue;
    add(cases, concat(dtype, ", one token"), layer_of(dtype), 1);
    add(cases, concat(dtype, ", five tokens"), layer_of(dtype), 5);
  }
}

void add_shapes(Cases& cases) {
  Layer mixed{.gate_dtype = kQ4_K, .up_dtype = kQ4_K, .down_dtype = kQ6_K};
  for (int64_t tokens : {2, 70, 150})
    add(cases, concat("mixed, ", tokens, " tokens"), mixed, tokens);
  mixed.up_dtype = kQ8_0;
  mixed.activation = Activation::gelu_tanh;
  for (int64_t tokens : {1, 3})
    add(cases, concat("three dtypes, ", tokens, " tokens"), mixed, tokens);
  for (DType dtype : {kQ8_0, kMXFP4, kFloat16}) {
    Layer odd = layer_of(dtype);
    odd.columns = 288, odd.inner = 160, odd.results = 5, odd.experts = 9, odd.used = 3;
    for (int64_t tokens : {1, 4})
      add(cases, concat("odd sizes, ", dtype, ", ", tokens, " tokens"), odd, tokens);
  }
  Layer tiny = layer_of(kFloat32);
  tiny.columns = 7, tiny.inner = 3, tiny.results = 2, tiny.experts = 1, tiny.used = 1;
  add(cases, "one expert", tiny, 3);
  Layer many = layer_of(kQ8_0);
  many.columns = 64, many.inner = 32, many.results = 64, many.experts = 128, many.used = 8;
  add(cases, "128 experts", many, 6);
  add(cases, "no tokens", tiny, 0);
}

void add_options(Cases& cases) {
  Layer layer{.gate_dtype = kQ4_K, .up_dtype = kQ4_K, .down_dtype = kQ8_0};
  layer.fill();
  for (int64_t tokens : {1, 3}) {
    std::vector<Input> inputs = inputs_of(layer, tokens);
    inputs.push_back({{tokens, layer.results}});
    cases.add({.op = "quant_experts",
               .name = concat("residual and another dtype, ", tokens, " tokens"),
               .inputs = inputs,
               .run = [layer](In in) { return computed(in, layer, kFloat32); },
               .reference = [layer](Arrays in) { return one(expected(in, layer)); },
               .dtypes = activation_dtypes(),
               .output_dtype = [](DType) { return kFloat32; },
               .tolerance = 4000,
               .opt_out = kNoGradient});
  }
}

}  // namespace

void quant_experts_cases(Cases& cases) {
  add_dtypes(cases);
  add_shapes(cases);
  add_options(cases);
  const auto make = [](const Shape& sizes, DType dtype = kFloat32) {
    return zeros(sizes, {.dtype = dtype, .device = device()});
  };
  const auto call = [make](const Shape& chosen, const Shape& up, const Shape& down,
                           int64_t experts) {
    quant_experts(make({2, 4}), make(chosen, kInt64), make(chosen), make({6, 4}), make(up),
                  make(down), experts);
  };
  cases.error("quant_experts", "chosen", "chosen must have shape [2, used], got [3, 1]", [=] {
    call({3, 1}, {6, 4}, {4, 3}, 2);
  });
  cases.error("quant_experts", "too many", "each token can have 2 experts, got 3", [=] {
    call({2, 3}, {6, 4}, {4, 3}, 2);
  });
  cases.error("quant_experts", "division", "gate of shape [6, 4] cannot be divided among 4 experts",
              [=] {
                call({2, 1}, {6, 4}, {4, 3}, 4);
              });
  cases.error("quant_experts", "up", "gate and up must have as many rows, got 6 and 8", [=] {
    call({2, 1}, {8, 4}, {4, 3}, 2);
  });
  cases.error("quant_experts", "down", "down must have 3 columns, got shape [4, 5]", [=] {
    call({2, 1}, {6, 4}, {4, 5}, 2);
  });
}

}  // namespace tensora::suite
