#include "tensora/ops/index/masked_scatter.h"

#include "tests/suite/cases.h"

namespace tensora::suite {

void masked_scatter_cases(Cases& cases) {
  const auto add = [&](const Shape& self, const Shape& mask, const Shape& source, bool inplace) {
    Case sample{.op = "masked_scatter",
                .name = concat(self, " ", mask, " ", source),
                .inputs = {{self}, {.sizes = mask, .low = 0, .high = 2, .dtype = kBool}, {source}},
                .run = [](In x) { return one(masked_scatter(x[0], x[1], x[2])); },
                .reference =
                    [](Arrays x) {
                      const Shape sizes = broadcast_shapes(x[0].sizes, x[1].sizes, "reference");
                      Array out = x[0].broadcast_to(sizes);
                      const Array chosen = x[1].broadcast_to(sizes);
                      int64_t next = 0;
                      for (int64_t i = 0; i < out.numel(); ++i)
                        if (chosen[i] != 0) out[i] = x[2][next++];
                      return one(out);
                    },
                .dtypes = all_dtypes()};
    if (inplace) sample.inplace = [](In x) { masked_scatter_(x[0], x[1], x[2]); };
    cases.add(sample);
  };
  add({3, 4}, {3, 4}, {12}, true);
  add({3, 4}, {4}, {3, 5}, true);
  add({4}, {3, 4}, {12}, false);
  add({}, {}, {2}, true);
  add({0, 3}, {3}, {0}, true);
  add({40, 50}, {40, 50}, {2000}, true);
  cases.error("masked_scatter", "a mask of integers", "expected a bool mask",
              [] { masked_scatter(zeros({2}), zeros({2}, {.dtype = kInt64}), zeros({2})); });
  cases.error(
      "masked_scatter", "a source of another dtype", "expected a source of dtype float32", [] {
        masked_scatter(zeros({2}), ones({2}, {.dtype = kBool}), zeros({2}, {.dtype = kFloat64}));
      });
  cases.error("masked_scatter", "a short source", "has only 1 elements",
              [] { masked_scatter(zeros({2}), ones({2}, {.dtype = kBool}), zeros({1})); });
  cases.error("masked_scatter_", "a larger mask", "cannot be broadcast", [] {
    masked_scatter_(zeros({2}), ones({2, 2}, {.dtype = kBool}), zeros({4}));
  });
}

}  // namespace tensora::suite
