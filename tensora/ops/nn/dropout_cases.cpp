#include "tensora/ops/nn/dropout.h"

#include <cmath>

#include "tensora/core/philox.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr uint64_t kSeed = 7;

unsigned word_of(int64_t element) {
  return philox(kSeed, static_cast<uint64_t>(element / 4)).word[element % 4];
}
bool keeps(int64_t element, double p) {
  return word_of(element) < static_cast<uint64_t>((1 - p) * 0x1p32);
}

void add_elements(Cases& cases) {
  for (const double p : {0.5, 0.1, 1.0})
    for (const Shape& sizes : {Shape{7}, Shape{3, 700}, Shape{}, Shape{0, 2}}) {
      cases.add({.op = "dropout",
                 .name = concat(sizes, " p ", p),
                 .inputs = {{sizes}},
                 .run = [p](In x) { return one(dropout(x[0], p)); },
                 .reference =
                     [p](Arrays x) {
                       Array out = x[0];
                       for (int64_t i = 0; i < out.numel(); ++i)
                         out[i] *= keeps(i, p) ? 1 / (1 - p) : 0;
                       return one(out);
                     },
                 .inplace = [p](In x) { dropout_(x[0], p); },
                 .tolerance = 2,
                 .seed = kSeed});
    }
  cases.add({.op = "dropout",
             .name = "not training",
             .inputs = {{{3, 4}}},
             .run = [](In x) { return one(dropout(x[0], 0.5, false)); },
             .reference = [](Arrays x) { return one(x[0]); },
             .opt_out = {{Mode::grad, "the input itself"}}});
  cases.add({.op = "alpha_dropout",
             .name = "matrix",
             .inputs = {{{5, 30}}},
             .run = [](In x) { return one(alpha_dropout(x[0], 0.3, true)); },
             .reference =
                 [](Arrays x) {
                   const double alpha = 1.7580993408473766;
                   const double a = 1 / std::sqrt((alpha * alpha * 0.3 + 1) * 0.7);
                   Array out = x[0];
                   for (int64_t i = 0; i < out.numel(); ++i)
                     out[i] = (keeps(i, 0.3) ? out[i] : -alpha) * a + alpha * a * 0.3;
                   return one(out);
                 },
             .inplace = [](In x) { alpha_dropout_(x[0], 0.3, true); },
             .tolerance = 2,
             .seed = kSeed});
}

void add_channels(Cases& cases) {
  const auto dropped = [](Arrays x, int64_t channels) {
    Array out = x[0];
    const int64_t inner = out.numel() / channels;
    for (int64_t i = 0; i < out.numel(); ++i) out[i] *= keeps(i / inner, 0.4) ? 1 / 0.6 : 0;
    return one(out);
  };
  struct Row {
    const char* op;
    Shape sizes;
    int64_t channels;
    Tensor (*run)(const Tensor&, double, bool);
  };
  const Row rows[] = {{"dropout1d", {3, 4, 5}, 12, dropout1d},
                      {"dropout1d", {4, 5}, 4, dropout1d},
                      {"dropout2d", {3, 4, 2, 2}, 12, dropout2d},
                      {"dropout3d", {3, 4, 2, 1, 2}, 12, dropout3d}};
  for (const Row& row : rows)
    cases.add({.op = row.op,
               .name = concat(row.sizes),
               .inputs = {{row.sizes}},
               .run = [row](In x) { return one(row.run(x[0], 0.4, true)); },
               .reference = [=](Arrays x) { return dropped(x, row.channels); },
               .tolerance = 2,
               .seed = kSeed});
  cases.add({.op = "feature_alpha_dropout",
             .name = "image",
             .inputs = {{{3, 4, 2, 2}}},
             .run = [](In x) { return one(feature_alpha_dropout(x[0], 0.3, true)); },
             .reference =
                 [](Arrays x) {
                   const double alpha = 1.7580993408473766;
                   const double a = 1 / std::sqrt((alpha * alpha * 0.3 + 1) * 0.7);
                   Array out = x[0];
                   for (int64_t i = 0; i < out.numel(); ++i)
                     out[i] = (keeps(i / 4, 0.3) ? out[i] : -alpha) * a + alpha * a * 0.3;
                   return one(out);
                 },
             .tolerance = 8,
             .seed = kSeed});
}

void add_slopes(Cases& cases) {
  cases.add({.op = "rrelu",
             .name = "training",
             .inputs = {{{5, 300}}},
             .run = [](In x) { return one(rrelu(x[0], 0.1, 0.3, true)); },
             .reference =
                 [](Arrays x) {
                   Array out = x[0];
                   for (int64_t i = 0; i < out.numel(); ++i)
                     if (out[i] <= 0) out[i] *= 0.1 + 0.2 * std::floor(word_of(i) / 256.0) / 0x1p24;
                   return one(out);
                 },
             .inplace = [](In x) { rrelu_(x[0], 0.1, 0.3, true); },
             .tolerance = 100,  // slopes are float32
             .seed = kSeed});
  cases.add({.op = "rrelu",
             .name = "not training",
             .inputs = {{{3, 4}}},
             .run = [](In x) { return one(rrelu(x[0], 0.1, 0.3)); },
             .reference =
                 [](Arrays x) {
                   Array out = x[0];
                   for (double& value : out.values) value *= value > 0 ? 1 : 0.2;
                   return one(out);
                 },
             .inplace = [](In x) { rrelu_(x[0], 0.1, 0.3); }});
}

void add_mistakes(Cases& cases) {
  cases.error("dropout", "probability", "dropout: the probability p must be between 0 and 1",
              [] { dropout(zeros({2}), 1.5); });
  cases.error("dropout", "integers", "expected a floating-point input",
              [] { dropout(zeros({2}, {.dtype = kInt64})); });
  cases.error("dropout1d", "dims", "dropout1d: expected 2 or 3 dims",
              [] { dropout1d(zeros({2})); });
  cases.error("dropout2d", "dims", "dropout2d: expected an input (N, C, ...)",
              [] { dropout2d(zeros({2})); });
  cases.error("rrelu", "slopes", "lower <= upper", [] { rrelu(zeros({2}), 0.5, 0.1); });
}

}  // namespace

void dropout_cases(Cases& cases) {
  add_elements(cases);
  add_channels(cases);
  add_slopes(cases);
  add_mistakes(cases);
}

}  // namespace tensora::suite
