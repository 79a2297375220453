#include "tensora/ops/conv/conv.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

/// out[n, m, o] += x[n, c, o * stride + k * dilation - padding] * w[m, c, k], in one dim.
Array line_convolved(const Array& x, const Array& w, int64_t padding, int64_t dilation,
                     int64_t length) {
  Array out(Shape{x.sizes[0], w.sizes[0], length});
  Array::each(out.sizes, [&](const Shape& at) {
    for (int64_t c = 0; c < w.sizes[1]; ++c)
      for (int64_t k = 0; k < w.sizes[2]; ++k) {
        const int64_t place = at[2] + k * dilation - padding;
        if (place >= 0 && place < x.sizes[2])
          out.at(at) += x.at({at[0], c, place}) * w.at({at[1], c, k});
      }
  });
  return out;
}

// A sum over a box of ones is easy to state in any number of dims.
void add_boxes(Cases& cases) {
  cases.add({.op = "conv2d",
             .name = "2x2 sums, unbatched",
             .inputs = {{{1, 3, 4}}},
             .run =
                 [](In x) {
                   return one(conv2d(
                       x[0], ones({1, 1, 2, 2}, {.dtype = x[0].dtype(), .device = x[0].device()})));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{1, 2, 3});
                   Array::each(out.sizes, [&](const Shape& at) {
                     for (int64_t i = 0; i < 4; ++i)
                       out.at(at) += x[0].at({0, at[1] + i / 2, at[2] + i % 2});
                   });
                   return one(out);
                 }});
  cases.add({.op = "conv3d",
             .name = "2x1x2 sums with stride",
             .inputs = {{{1, 1, 4, 2, 5}}, {{1}}},
             .run =
                 [](In x) {
                   const Tensor box =
                       ones({1, 1, 2, 1, 2}, {.dtype = x[0].dtype(), .device = x[0].device()});
                   return one(conv3d(x[0], box, x[1], {2, 1, 3}, "valid"));
                 },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{1, 1, 2, 2, 2}, x[1][0]);
                   Array::each(out.sizes, [&](const Shape& at) {
                     for (int64_t i = 0; i < 4; ++i)
                       out.at(at) += x[0].at({0, 0, at[2] * 2 + i / 2, at[3], at[4] * 3 + i % 2});
                   });
                   return one(out);
                 }});
}

void add_lines(Cases& cases) {
  cases.add({.op = "conv1d",
             .name = "same, odd padding",
             .inputs = {{{2, 2, 5}, -1, 1}, {{3, 2, 4}, -1, 1}},
             .run = [](In x) { return one(conv1d(x[0], x[1], {}, 1, "same")); },
             .reference = [](Arrays x) { return one(line_convolved(x[0], x[1], 1, 1, 5)); }});
  cases.add({.op = "conv1d",
             .name = "same, dilated, unbatched",
             .inputs = {{{2, 5}, -1, 1}, {{3, 2, 3}, -1, 1}},
             .run = [](In x) { return one(conv1d(x[0], x[1], {}, 1, "same", 2)); },
             .reference =
                 [](Arrays x) {
                   Array batch = x[0];
                   batch.sizes = {1, 2, 5};
                   Array out = line_convolved(batch, x[1], 2, 2, 5);
                   out.sizes = {3, 5};
                   return one(out);
                 }});
  cases.add({.op = "conv1d",
             .name = "plain",
             .inputs = {{{1, 1, 4}}, {{1, 1, 2}}},
             .run = [](In x) { return one(conv1d(x[0], x[1])); },
             .reference = [](Arrays x) { return one(line_convolved(x[0], x[1], 0, 1, 3)); }});
}

// A transposed convolution writes every input times the kernel.
void add_transposed(Cases& cases) {
  const auto spread = [](const Array& x, const Array& w, int64_t stride, int64_t dilation,
                         int64_t padding, const Shape& sizes) {
    Array out(sizes);
    Array::each(x.sizes, [&](const Shape& at) {
      Array::each(w.sizes, [&](const Shape& tap) {
        if (tap[0] != at[1]) return;
        Shape to{at[0], tap[1]};
        for (int d = 2; d < at.size(); ++d) {
          to.push_back(at[d] * stride + tap[d] * dilation - padding);
          if (to[d] < 0 || to[d] >= sizes[d]) return;
        }
        out.at(to) += x.at(at) * w.at(tap);
      });
    });
    return out;
  };
  cases.add({.op = "conv_transpose1d",
             .name = "output_padding beyond the stride",
             .inputs = {{{1, 2, 3}, -1, 1}, {{2, 1, 2}, -1, 1}},
             .run = [](In x) { return one(conv_transpose1d(x[0], x[1], {}, 1, 1, 2, 1, 3)); },
             .reference =
                 [=](Arrays x) {
                   return one(spread(x[0], x[1], 1, 3, 1, {1, 1, 6}));
                 }});
  cases.add({.op = "conv_transpose2d",
             .name = "stride",
             .inputs = {{{1, 2, 2, 3}, -1, 1}, {{2, 2, 2, 2}, -1, 1}},
             .run = [](In x) { return one(conv_transpose2d(x[0], x[1], {}, 2)); },
             .reference =
                 [=](Arrays x) {
                   return one(spread(x[0], x[1], 2, 1, 0, {1, 2, 4, 6}));
                 }});
  cases.add({.op = "conv_transpose3d",
             .name = "plain",
             .inputs = {{{1, 1, 2, 1, 2}, -1, 1}, {{1, 2, 2, 2, 1}, -1, 1}},
             .run = [](In x) { return one(conv_transpose3d(x[0], x[1])); },
             .reference =
                 [=](Arrays x) {
                   return one(spread(x[0], x[1], 1, 1, 0, {1, 2, 3, 2, 2}));
                 }});
}

// (1 + 2i) * (3 - i) + i with a kernel of one element.
void add_complex(Cases& cases) {
  cases.add({.op = "conv1d",
             .name = "complex",
             .inputs = {{{1, 1, 2}}},
             .run =
                 [](In x) {
                   const Tensor imag_unit = full({1}, 1, {.dtype = kFloat32, .device = device()});
                   const Tensor unit = complex(imag_unit * 0, imag_unit);
                   const Tensor input = complex(x[0], x[0] * 2);
                   const Tensor weight = reshape(complex(imag_unit * 3, -imag_unit), {1, 1, 1});
                   const Tensor out = conv1d(input, weight, unit);
                   return Out{real(out), imag(out)};
                 },
             .reference =
                 [](Arrays x) {
                   Array re = x[0], im = x[0];
                   for (double& v : re.values) v *= 5;         // 3 + 2
                   for (double& v : im.values) v = 5 * v + 1;  // 6 - 1, and the bias
                   return ArrayList{re, im};
                 },
             .dtypes = {kFloat32}});
}

void add_errors(Cases& cases) {
  cases.error("conv2d", "dims of input", "conv2d: expected 3-dimensional (unbatched) or", [] {
    conv2d(zeros({2, 2}), zeros({1, 1, 1, 1}));
  });
  cases.error("conv2d", "rule", "conv2d: padding must be numbers, 'same' or 'valid', got 'full'",
              [] {
                conv2d(zeros({1, 1, 2, 2}), zeros({1, 1, 1, 1}), {}, 1, "full");
              });
  cases.error("conv1d", "same with a stride",
              "conv1d: padding='same' is not supported for strided convolutions", [] {
                conv1d(zeros({1, 1, 2}), zeros({1, 1, 1}), {}, 2, "same");
              });
  cases.error("conv3d", "channels", "conv3d: given groups=1", [] {
    conv3d(zeros({1, 2, 2, 2, 2}), zeros({1, 1, 1, 1, 1}));
  });
  cases.error("conv_transpose1d", "output_padding",
              "conv_transpose1d: output_padding must be smaller than stride or dilation", [] {
                conv_transpose1d(zeros({1, 1, 2}), zeros({1, 1, 1}), {}, 2, 0, 2);
              });
}

}  // namespace

void conv_cases(Cases& cases) {
  add_boxes(cases);
  add_lines(cases);
  add_transposed(cases);
  add_complex(cases);
  add_errors(cases);
}

}  // namespace tensora::suite
