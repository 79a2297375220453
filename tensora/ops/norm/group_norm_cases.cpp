#include "tensora/ops/norm/group_norm.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Array group_normalised(const Array& x, int64_t groups, double eps, const Array& weight,
                       const Array& bias) {
  Array out(x.sizes);
  const int64_t channels = x.sizes[1];
  int64_t inner = 1;
  for (int d = 2; d < x.sizes.size(); ++d) inner *= x.sizes[d];
  const int64_t n = channels / groups * inner;
  for (int64_t start = 0; n > 0 && start < x.numel(); start += n) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n; ++i) mean += x[start + i] / double(n);
    for (int64_t i = 0; i < n; ++i) square += std::pow(x[start + i] - mean, 2) / double(n);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t c = (start + i) / inner % channels;
      out[start + i] =
          (x[start + i] - mean) / std::sqrt(square + eps) * (weight.sizes.empty() ? 1 : weight[c]) +
          (bias.sizes.empty() ? 0 : bias[c]);
    }
  }
  return out;
}

struct Sample {
  Shape sizes;
  int64_t groups;
};

}  // namespace

void group_norm_cases(Cases& cases) {
  for (const Sample& sample :
       {Sample{{2, 6, 5}, 3}, Sample{{3, 4}, 2}, Sample{{2, 4, 3, 2}, 1}, Sample{{2, 3, 7}, 3},
        Sample{{0, 6, 4}, 3}, Sample{{3, 2, 0}, 1}, Sample{{6, 32, 20, 10}, 8}}) {
    const int64_t groups = sample.groups, channels = sample.sizes[1];
    const std::string name = concat(sample.sizes, " in ", groups);
    cases.add(
        {.op = "group_norm",
         .name = name,
         .inputs = {{sample.sizes}, {{channels}}, {{channels}}},
         .run = [groups](In x) { return one(group_norm(x[0], groups, x[1], x[2], 1e-3)); },
         .reference =
             [groups](Arrays x) { return one(group_normalised(x[0], groups, 1e-3, x[1], x[2])); },
         .tolerance = 6});
    if (channels != 6) continue;
    cases.add({.op = "group_norm",
               .name = concat(name, " without parameters"),
               .inputs = {{sample.sizes}},
               .run = [groups](In x) { return one(group_norm(x[0], groups)); },
               .reference =
                   [groups](Arrays x) { return one(group_normalised(x[0], groups, 1e-5, {}, {})); },
               .tolerance = 6});
  }
  cases.add({.op = "group_norm",
             .name = "large",
             .inputs = {{{16, 320, 64, 64}}, {{320}}, {{320}}},
             .run = [](In x) { return one(group_norm(x[0], 32, x[1], x[2])); },
             .dtypes = {kFloat32, kBFloat16},
             .big = true});
  cases.error("group_norm", "groups that do not divide", "cannot be divided into 4 groups", [] {
    group_norm(zeros({2, 6, 5}), 4);
  });
  cases.error("group_norm", "no groups", "expected num_groups > 0", [] {
    group_norm(zeros({2, 6, 5}), 0);
  });
  cases.error("group_norm", "a vector", "at least two dims", [] { group_norm(zeros({6}), 2); });
  cases.error("group_norm", "weight of another shape", "weight must have shape [6]", [] {
    group_norm(zeros({2, 6, 5}), 3, zeros({3}));
  });
}

}  // namespace tensora::suite
