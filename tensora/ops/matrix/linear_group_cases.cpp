#include "tensora/ops/matrix/linear_group_op.h"

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

ArrayList products(Arrays x) {
  const Array& input = x[0];
  const int64_t width = input.sizes[input.sizes.size() - 1], rows = input.numel() / width;
  ArrayList results;
  for (const Array& weight : x.subspan(1)) {
    Shape sizes = input.sizes;
    const int64_t out = sizes[sizes.size() - 1] = weight.sizes[0];
    Array result(sizes);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < out; ++j)
        for (int64_t k = 0; k < width; ++k)
          result[i * out + j] += input[i * width + k] * weight[j * width + k];
    results.push_back(result);
  }
  return results;
}

}  // namespace

void linear_group_cases(Cases& cases) {
  for (const Shape& sizes : {Shape{3, 4}, Shape{2, 3, 4}})
    cases.add({.op = "linear_group",
               .name = concat(sizes),
               .inputs = {{sizes}, {{5, 4}}, {{2, 4}}, {{2, 4}}},
               .run = [](In x) { return linear_group(x[0], x.subspan(1)); },
               .reference = products,
               .tolerance = 4});
  cases.error("linear_group", "width", "does not fit weight", [] {
    linear_group(rand({2, 3}), std::vector<Tensor>{rand({4, 3}), rand({4, 5})});
  });
}

}  // namespace tensora::suite
