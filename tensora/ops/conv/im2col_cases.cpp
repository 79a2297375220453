#include "tensora/dispatch/op.h"
#include "tensora/ops/conv/im2col.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape image;  // N C H W
  Im2colAttrs attrs;
  Shape blocks;  // along H and W
};

int64_t pick(const Shape& values, int d) { return values.size() == 1 ? values[0] : values[d]; }

/// Every element of every block that lies in the image: body(at in the image, row, block).
void each_element(const Sample& s, const std::function<void(const Shape&, const Shape&)>& body) {
  const int64_t kernel[] = {pick(s.attrs.kernel_size, 0), pick(s.attrs.kernel_size, 1)};
  Array::each(
      {s.image[0], s.image[1], kernel[0], kernel[1], s.blocks[0], s.blocks[1]},
      [&](const Shape& i) {
        Shape at{i[0], i[1]};
        for (int d = 0; d < 2; ++d) {
          const int64_t place = i[4 + d] * pick(s.attrs.stride, d) +
                                i[2 + d] * pick(s.attrs.dilation, d) - pick(s.attrs.padding, d);
          if (place < 0 || place >= s.image[2 + d]) return;
          at.push_back(place);
        }
        body(at, {i[0], (i[1] * kernel[0] + i[2]) * kernel[1] + i[3], i[4] * s.blocks[1] + i[5]});
      });
}

Shape columns_of(const Sample& s) {
  return {s.image[0], s.image[1] * pick(s.attrs.kernel_size, 0) * pick(s.attrs.kernel_size, 1),
          s.blocks[0] * s.blocks[1]};
}

void add_errors(Cases& cases) {
  cases.error("unfold", "no block", "unfold: an image of size [2, 2] with padding [0] holds no",
              [] {
                unfold(zeros({1, 1, 2, 2}), 3);
              });
  cases.error("unfold", "dims", "expected a batch of images", [] { unfold(zeros({2, 2}), 1); });
  cases.error("unfold", "stride", "stride must be positive", [] {
    unfold(zeros({1, 1, 2, 2}), 1, 1, 0, 0);
  });
  cases.error("fold", "rows", "must be divisible by the 4 elements of kernel_size [2]", [] {
    fold(zeros({1, 3, 4}), {3, 3}, 2);
  });
  cases.error("fold", "blocks", "has 2 by 2 blocks, but input of shape [1, 4, 5] has 5", [] {
    fold(zeros({1, 4, 5}), {3, 3}, 2);
  });
}

}  // namespace

void im2col_cases(Cases& cases) {
  const Sample samples[] = {
      {"plain", {2, 3, 4, 5}, {.kernel_size = {2, 3}}, {3, 3}},
      {"stride and padding",
       {1, 2, 5, 4},
       {.kernel_size = 3, .padding = {1, 2}, .stride = 2},
       {3, 3}},
      {"dilated", {1, 1, 6, 7}, {.kernel_size = {2, 3}, .dilation = {3, 2}, .padding = 1}, {5, 5}},
      {"gaps", {1, 2, 7, 7}, {.kernel_size = {1, 2}, .stride = {3, 4}}, {3, 2}},
      {"empty batch", {0, 2, 3, 3}, {.kernel_size = 2}, {2, 2}},
      {"several threads", {2, 5, 60, 61}, {.kernel_size = 3, .padding = 1}, {60, 61}},
  };
  for (const Sample& s : samples) {
    const Im2colAttrs& a = s.attrs;
    const bool large = s.image.numel() > 10000;
    const std::map<Mode, std::string> opt_out =
        large ? std::map<Mode, std::string>{{Mode::grad, "too large for differences"}}
              : std::map<Mode, std::string>{};
    cases.add({.op = "im2col",
               .name = s.name,
               .inputs = {{s.image}},
               .run = [=](In x) { return one(apply(im2col_op, {x[0]}, a)); },
               .reference =
                   [=](Arrays x) {
                     Array out(columns_of(s));
                     each_element(
                         s, [&](const Shape& at, const Shape& to) { out.at(to) = x[0].at(at); });
                     return one(out);
                   },
               .dtypes = large ? std::vector<DType>{kFloat32} : floating_dtypes(),
               .opt_out = opt_out});
    cases.add(
        {.op = "col2im",
         .name = s.name,
         .inputs = {{columns_of(s)}},
         .run =
             [=](In x) {
               return one(apply(
                   col2im_op, {x[0]},
                   {{s.image[2], s.image[3]}, a.kernel_size, a.dilation, a.padding, a.stride}));
             },
         .reference =
             [=](Arrays x) {
               Array out(s.image);
               each_element(
                   s, [&](const Shape& at, const Shape& from) { out.at(at) += x[0].at(from); });
               return one(out);
             },
         .dtypes = large ? std::vector<DType>{kFloat32} : floating_dtypes(),
         .opt_out = opt_out});
  }
  cases.add({.op = "fold",
             .name = "of unfold, unbatched",
             .inputs = {{{2, 4, 6}}},
             .run =
                 [](In x) {
                   return one(fold(unfold(x[0], 2, 1, 0, 2), {4, 6}, 2, 1, 0, 2));
                 },
             .reference = [](Arrays x) { return one(x[0]); },
             .dtypes = {kFloat32, kComplex64}});
  add_errors(cases);
}

}  // namespace tensora::suite
