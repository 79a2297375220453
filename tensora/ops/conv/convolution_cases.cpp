#include <algorithm>

#include "tensora/dispatch/op.h"
#include "tensora/ops/conv/conv.h"
#include "tensora/ops/conv/convolution.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Shape each_dim(const Shape& values, int count) {
  return values.size() == 1 ? Shape::filled(count, values[0]) : values;
}

/// Every product of a plain convolution: body(large, small, weight), as indices.
void each_product(const Shape& large, const Shape& small, const Shape& weight,
                  const ConvolutionAttrs& attrs,
                  const std::function<void(const Shape&, const Shape&, const Shape&)>& body) {
  const int spatial = large.size() - 2;
  const Shape stride = each_dim(attrs.stride, spatial), padding = each_dim(attrs.padding, spatial),
              dilation = each_dim(attrs.dilation, spatial);
  const int64_t outs = weight[0] / attrs.groups;
  Array::each(weight, [&](const Shape& w) {
    Shape places = small;
    places[1] = 1;
    Array::each(places, [&](const Shape& place) {
      Shape s = place, l = place;
      s[1] = w[0];
      l[1] = w[0] / outs * weight[1] + w[1];
      for (int d = 0; d < spatial; ++d) {
        l[d + 2] = place[d + 2] * stride[d] + w[d + 2] * dilation[d] - padding[d];
        if (l[d + 2] < 0 || l[d + 2] >= large[d + 2]) return;
      }
      body(l, s, w);
    });
  });
}

Shape result_sizes(const Shape& input, const Shape& weight, const ConvolutionAttrs& attrs) {
  const int spatial = input.size() - 2;
  const Shape stride = each_dim(attrs.stride, spatial), padding = each_dim(attrs.padding, spatial),
              dilation = each_dim(attrs.dilation, spatial),
              extra = each_dim(attrs.output_padding, spatial);
  Shape sizes{input[0], attrs.transposed ? weight[1] * attrs.groups : weight[0]};
  for (int d = 0; d < spatial; ++d) {
    const int64_t reach = (weight[d + 2] - 1) * dilation[d] + 1;
    sizes.push_back(attrs.transposed
                        ? (input[d + 2] - 1) * stride[d] - 2 * padding[d] + reach + extra[d]
                        : (input[d + 2] + 2 * padding[d] - reach) / stride[d] + 1);
  }
  return sizes;
}

Array convolved(const Array& input, const Array& weight, const ConvolutionAttrs& attrs) {
  Array result(result_sizes(input.sizes, weight.sizes, attrs));
  if (attrs.transposed)
    each_product(result.sizes, input.sizes, weight.sizes, attrs,
                 [&](const Shape& l, const Shape& s, const Shape& w) {
                   result.at(l) += input.at(s) * weight.at(w);
                 });
  else
    each_product(input.sizes, result.sizes, weight.sizes, attrs,
                 [&](const Shape& l, const Shape& s, const Shape& w) {
                   result.at(s) += input.at(l) * weight.at(w);
                 });
  return result;
}

Array plus_bias(Array x, const Array& bias) {
  Array::each(x.sizes, [&](const Shape& at) { x.at(at) += bias[at[1]]; });
  return x;
}

struct Sample {
  const char* name;
  Shape input, weight;
  ConvolutionAttrs attrs = {};
  bool bias = true;
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> list = {
      {"1-D", {2, 3, 9}, {4, 3, 3}, {.stride = 2, .padding = 1}},
      {"1-D without bias", {1, 2, 5}, {2, 2, 2}, {}, false},
      {"2-D", {2, 3, 5, 6}, {4, 3, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}},
      {"1x1", {2, 3, 4, 3}, {5, 3, 1, 1}},
      {"1x1 with stride", {1, 3, 5, 4}, {2, 3, 1, 1}, {.stride = 2}},
      {"dilated", {1, 2, 7, 8}, {3, 2, 3, 2}, {.padding = 2, .dilation = {2, 3}}},
      {"groups", {2, 4, 5, 5}, {6, 2, 3, 3}, {.stride = 2, .padding = 1, .groups = 2}},
      {"depthwise", {2, 3, 6, 5}, {3, 1, 3, 3}, {.padding = 1, .groups = 3}},
      {"depthwise, two per channel", {1, 3, 6, 5}, {6, 1, 3, 2}, {.stride = 2, .groups = 3}},
      {"stride beyond the kernel", {1, 2, 7, 7}, {2, 2, 2, 1}, {.stride = 3}},
      {"padding beyond the kernel", {1, 1, 2, 2}, {2, 1, 1, 2}, {.padding = 3}},
      {"3-D", {1, 2, 4, 3, 4}, {3, 2, 2, 3, 2}, {.stride = {1, 2, 1}, .padding = {0, 1, 1}}},
      {"transposed 1-D",
       {2, 3, 4},
       {3, 2, 3},
       {.stride = 2, .padding = 1, .transposed = true, .output_padding = 1}},
      {"transposed 2-D",
       {1, 2, 3, 4},
       {2, 3, 3, 2},
       {.stride = {2, 3}, .padding = {1, 0}, .transposed = true, .output_padding = {1, 2}}},
      {"transposed, groups",
       {2, 4, 3, 3},
       {4, 3, 2, 3},
       {.padding = 1, .dilation = 2, .transposed = true, .groups = 2}},
      {"transposed depthwise",
       {1, 3, 3, 4},
       {3, 1, 3, 3},
       {.stride = 2, .padding = 1, .transposed = true, .groups = 3}},
      {"transposed 3-D", {1, 2, 2, 3, 2}, {2, 2, 2, 2, 3}, {.stride = 2, .transposed = true}},
      {"empty batch", {0, 2, 4, 4}, {3, 2, 3, 3}},
  };
  return list;
}

std::vector<Input> inputs_of(const Sample& sample) {
  std::vector<Input> inputs{{sample.input, -1, 1}, {sample.weight, -1, 1}};
  if (sample.bias)
    inputs.push_back({{result_sizes(sample.input, sample.weight, sample.attrs)[1]}, -1, 1});
  return inputs;
}

void add_convolutions(Cases& cases) {
  for (const Sample& sample : samples())
    cases.add({.op = "convolution",
               .name = sample.name,
               .inputs = inputs_of(sample),
               .run =
                   [=](In x) {
                     return one(apply(convolution_op, {x[0], x[1], sample.bias ? x[2] : Tensor()},
                                      sample.attrs));
                   },
               .reference =
                   [=](Arrays x) {
                     const Array result = convolved(x[0], x[1], sample.attrs);
                     return one(sample.bias ? plus_bias(result, x[2]) : result);
                   }});
}

// The gradients as ops of their own. They are linear, so the definition is that of each_product.
void add_gradients(Cases& cases) {
  for (const Sample& sample : samples()) {
    const Shape out = result_sizes(sample.input, sample.weight, sample.attrs);
    const bool transposed = sample.attrs.transposed;
    cases.add({.op = "convolution_input_grad",
               .name = sample.name,
               .inputs = {{out, -1, 1}, {sample.weight, -1, 1}},
               .run =
                   [=](In x) {
                     return one(apply(convolution_input_grad_op, {x[0], x[1]},
                                      {sample.attrs, sample.input}));
                   },
               .reference =
                   [=](Arrays x) {
                     Array result(sample.input);
                     each_product(transposed ? out : sample.input, transposed ? sample.input : out,
                                  sample.weight, sample.attrs,
                                  [&](const Shape& l, const Shape& s, const Shape& w) {
                                    result.at(transposed ? s : l) +=
                                        x[0].at(transposed ? l : s) * x[1].at(w);
                                  });
                     return one(result);
                   }});
    cases.add({.op = "convolution_weight_grad",
               .name = sample.name,
               .inputs = {{out, -1, 1}, {sample.input, -1, 1}},
               .run =
                   [=](In x) {
                     return one(apply(convolution_weight_grad_op, {x[0], x[1]},
                                      {sample.attrs, sample.weight}));
                   },
               .reference =
                   [=](Arrays x) {
                     Array result(sample.weight);
                     each_product(transposed ? out : sample.input, transposed ? sample.input : out,
                                  sample.weight, sample.attrs,
                                  [&](const Shape& l, const Shape& s, const Shape& w) {
                                    result.at(w) +=
                                        x[0].at(transposed ? l : s) * x[1].at(transposed ? s : l);
                                  });
                     return one(result);
                   }});
  }
}

// Channels-last in, channels-last out; the values do not depend on the layout.
void add_channels_last(Cases& cases) {
  const Sample layouts[] = {
      {"channels-last", {2, 3, 5, 6}, {4, 3, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}},
      {"channels-last, groups", {2, 4, 5, 5}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
      {"channels-last depthwise", {2, 3, 6, 5}, {3, 1, 3, 3}, {.padding = 1, .groups = 3}},
      {"channels-last, two per channel", {1, 3, 6, 5}, {6, 1, 3, 2}, {.stride = 2, .groups = 3}},
      {"channels-last 1x1", {2, 3, 4, 3}, {5, 3, 1, 1}},
      {"channels-last transposed",
       {1, 2, 3, 4},
       {2, 3, 3, 2},
       {.stride = {2, 3}, .padding = {1, 0}, .transposed = true}},
  };
  for (const Sample& sample : layouts)
    cases.add(
        {.op = "convolution",
         .name = sample.name,
         .inputs = {{sample.input, -1, 1}, {sample.weight, -1, 1}},
         .run =
             [=](In x) {
               const Tensor input = permute(contiguous(permute(x[0], {0, 2, 3, 1})), {0, 3, 1, 2});
               const Tensor out = apply(convolution_op, {input, x[1], Tensor()}, sample.attrs);
               check(out.stride(1) == 1, "the result is not channels-last");
               return one(out);
             },
         .reference = [=](Arrays x) { return one(convolved(x[0], x[1], sample.attrs)); }});
}

// Enough work for several tiles, blocks of k and threads.
std::vector<Sample> large_samples() {
  return {
      {"several tiles", {2, 30, 15, 17}, {20, 30, 3, 3}, {.padding = 1}},
      {"many channels", {1, 130, 4, 4}, {150, 130, 3, 3}, {.stride = 2, .padding = 1}},
      {"large depthwise", {2, 70, 14, 14}, {70, 1, 3, 3}, {.padding = 1, .groups = 70}},
      {"tiles of 2x2", {2, 32, 9, 11}, {48, 32, 3, 3}, {.padding = {1, 0}}},
      {"tiles of 2x2 over several images", {9, 32, 4, 3}, {32, 32, 3, 3}, {.padding = {2, 3}}},
      {"more channels than are packed at once", {1, 20, 5, 4}, {530, 20, 3, 2}, {.padding = 1}},
      {"blocks of tiles of 2x2", {1, 48, 26, 24}, {32, 48, 3, 3}, {.padding = 1}},
  };
}

void add_large(Cases& cases) {
  for (const Sample& sample : large_samples())
    for (const bool last : {false, true}) {
      const Shape out = result_sizes(sample.input, sample.weight, sample.attrs);
      const auto laid_out = [=](const Tensor& x) {
        return last ? permute(contiguous(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2}) : x;
      };
      const std::map<Mode, std::string> opt_out = {
          {Mode::grad, "the same code as the small cases, at a size too large for differences"}};
      cases.add(
          {.op = "convolution",
           .name = concat(sample.name, last ? ", channels-last" : ""),
           .inputs = {{sample.input, -1, 1}, {sample.weight, -1, 1}},
           .run =
               [=](In x) {
                 return one(apply(convolution_op, {laid_out(x[0]), x[1], Tensor()}, sample.attrs));
               },
           .reference = [=](Arrays x) { return one(convolved(x[0], x[1], sample.attrs)); },
           .dtypes = {kFloat32, kBFloat16},
           .tolerance = 4,  // sums of a thousand products
           .opt_out = opt_out});
      cases.add({.op = "convolution_weight_grad",
                 .name = concat(sample.name, last ? ", channels-last" : ""),
                 .inputs = {{out, -1, 1}, {sample.input, -1, 1}},
                 .run =
                     [=](In x) {
                       return one(apply(convolution_weight_grad_op,
                                        {laid_out(x[0]), laid_out(x[1])},
                                        {sample.attrs, sample.weight}));
                     },
                 .reference =
                     [=](Arrays x) {
                       Array result(sample.weight);
                       each_product(sample.input, out, sample.weight, sample.attrs,
                                    [&](const Shape& l, const Shape& s, const Shape& w) {
                                      result.at(w) += x[0].at(s) * x[1].at(l);
                                    });
                       return one(result);
                     },
                 .dtypes = {kFloat32, kBFloat16},
                 // Sums of hundreds of products, by Winograd's tiles where cuDNN chooses them.
                 .tolerance = 16,
                 .opt_out = opt_out});
      cases.add({.op = "convolution_input_grad",
                 .name = concat(sample.name, last ? ", channels-last" : ""),
                 .inputs = {{out, -1, 1}, {sample.weight, -1, 1}},
                 .run =
                     [=](In x) {
                       return one(apply(convolution_input_grad_op, {laid_out(x[0]), x[1]},
                                        {sample.attrs, sample.input}));
                     },
                 .reference =
                     [=](Arrays x) {
                       Array result(sample.input);
                       each_product(sample.input, out, sample.weight, sample.attrs,
                                    [&](const Shape& l, const Shape& s, const Shape& w) {
                                      result.at(l) += x[0].at(s) * x[1].at(w);
                                    });
                       return one(result);
                     },
                 .dtypes = {kFloat32, kBFloat16},
                 // Winograd's tiles round relative to the largest element, which is far from others
                 // where a view repeats one.
                 .tolerance = 16,
                 .opt_out = opt_out});
    }
}

void add_errors(Cases& cases) {
  const auto conv = [&](std::string name, std::string message, Shape input, Shape weight,
                        ConvolutionAttrs attrs = {}) {
    cases.error("convolution", std::move(name), std::move(message), [=] {
      apply(convolution_op, {zeros(input), zeros(weight), Tensor()}, attrs);
    });
  };
  conv("channels", "expected input[1, 2, 4, 4] to have 3 channels, but got 2 channels instead",
       {1, 2, 4, 4}, {1, 3, 3, 3});
  conv("kernel too large", "kernel size can't be greater than the padded input", {1, 1, 2, 2},
       {1, 1, 3, 3});
  conv("groups", "divisible by groups=2", {1, 2, 4, 4}, {3, 1, 1, 1}, {.groups = 2});
  conv("groups of 0", "groups must be positive", {1, 2, 4, 4}, {3, 1, 1, 1}, {.groups = 0});
  conv("stride", "stride must be positive, got [0]", {1, 1, 2, 2}, {1, 1, 1, 1}, {.stride = 0});
  conv("padding", "padding must be non-negative", {1, 1, 2, 2}, {1, 1, 1, 1}, {.padding = -1});
  conv("dilation", "dilation must be a number or a list of 2", {1, 1, 2, 2}, {1, 1, 1, 1},
       {.dilation = {1, 1, 1}});
  conv("dims", "expected a weight of 4 dimensions", {1, 1, 2, 2}, {1, 1, 1});
  conv("output_padding", "output_padding must be smaller than stride", {1, 1, 2, 2}, {1, 1, 1, 1},
       {.transposed = true, .output_padding = 1});
  conv("nothing left", "the output would have size -1", {1, 1, 2, 2}, {1, 1, 2, 2},
       {.padding = 2, .transposed = true});
  cases.error("convolution", "bias", "expected bias to be 1-dimensional with 2 elements", [] {
    apply(convolution_op, {zeros({1, 1, 2, 2}), zeros({2, 1, 1, 1}), zeros({3})});
  });
  cases.error("convolution", "dtypes", "expected one dtype, got float32 and float64", [] {
    apply(convolution_op,
          {zeros({1, 1, 2, 2}), zeros({2, 1, 1, 1}, {.dtype = kFloat64}), Tensor()});
  });
  cases.error("convolution_input_grad", "grad", "expected grad of shape [1, 1, 2, 2]", [] {
    apply(convolution_input_grad_op, {zeros({1, 1, 3, 3}), zeros({1, 1, 2, 2})},
          {{}, {1, 1, 3, 3}});
  });
  cases.error("convolution_weight_grad", "grad", "expected grad of shape [1, 1, 2, 2]", [] {
    apply(convolution_weight_grad_op, {zeros({1, 1, 3, 3}), zeros({1, 1, 3, 3})},
          {{}, {1, 1, 2, 2}});
  });
}

}  // namespace

void convolution_cases(Cases& cases) {
  add_convolutions(cases);
  add_gradients(cases);
  add_channels_last(cases);
  add_large(cases);
  add_errors(cases);
}

}  // namespace tensora::suite
