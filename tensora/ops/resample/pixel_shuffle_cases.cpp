#include "tensora/ops/resample/pixel_shuffle.h"

#include "tests/suite/cases.h"

namespace tensora::suite {

void pixel_shuffle_cases(Cases& cases) {
  const auto shuffled = [](const Array& x, int64_t r) {
    const Shape& s = x.sizes;
    Array out(Shape{s[0], s[1] / (r * r), s[2] * r, s[3] * r});
    Array::each(out.sizes, [&](const Shape& at) {
      const int64_t channel = (at[1] * r + at[2] % r) * r + at[3] % r;
      out.at(at) = x.at({at[0], channel, at[2] / r, at[3] / r});
    });
    return out;
  };
  cases.add({.op = "pixel_shuffle",
             .name = "images",
             .inputs = {{{2, 8, 2, 3}}},
             .run = [](In x) { return one(pixel_shuffle(x[0], 2)); },
             .reference = [=](Arrays x) { return one(shuffled(x[0], 2)); }});
  cases.add({.op = "pixel_unshuffle",
             .name = "images",
             .inputs = {{{2, 1, 4, 6}}},
             .run = [](In x) { return one(pixel_unshuffle(x[0], 2)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{2, 4, 2, 3});
                   Array::each(out.sizes, [&](const Shape& at) {
                     out.at(at) = x[0].at({at[0], 0, at[2] * 2 + at[1] / 2, at[3] * 2 + at[1] % 2});
                   });
                   return one(out);
                 }});
  cases.add({.op = "channel_shuffle",
             .name = "two groups",
             .inputs = {{{2, 6, 3}}},
             .run = [](In x) { return one(channel_shuffle(x[0], 2)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{2, 6, 3});
                   Array::each(out.sizes, [&](const Shape& at) {
                     out.at(at) = x[0].at({at[0], at[1] % 2 * 3 + at[1] / 2, at[2]});
                   });
                   return one(out);
                 }});
  cases.error("pixel_shuffle", "channels", "must be divisible by the square of upscale_factor 2",
              [] {
                pixel_shuffle(zeros({1, 6, 2, 2}), 2);
              });
  cases.error("pixel_unshuffle", "height", "height and width must be divisible by 3", [] {
    pixel_unshuffle(zeros({1, 6, 2, 3}), 3);
  });
  cases.error("channel_shuffle", "groups", "must be divisible by groups", [] {
    channel_shuffle(zeros({1, 5, 2}), 2);
  });
}

}  // namespace tensora::suite
