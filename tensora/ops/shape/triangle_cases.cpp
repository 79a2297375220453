#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

enum class Keep { lower, upper };

Array triangle(const Array& x, int64_t diagonal, Keep keep) {
  Array result(x.sizes);
  const int last = x.sizes.size() - 1;
  Array::each(x.sizes, [&](const Shape& at) {
    const int64_t above = at[last] - at[last - 1];
    if (keep == Keep::lower ? above <= diagonal : above >= diagonal) result.at(at) = x.at(at);
  });
  return result;
}

}  // namespace

void triangle_cases(Cases& cases) {
  struct Sample {
    const char* name;
    Shape sizes;
    int64_t diagonal;
  };
  const Sample samples[] = {{"square", {4, 4}, 0},
                            {"whole groups", {2, 20, 32}, -1},
                            {"wide", {3, 5}, 1},
                            {"tall", {5, 3}, -2},
                            {"batch", {2, 3, 4}, -1},
                            {"everything", {3, 3}, 10},
                            {"beyond", {3, 3}, -10},
                            {"empty", {0, 3}, 0},
                            {"far away", {2, 2}, INT64_MAX},
                            {"four dims", {2, 1, 3, 3}, 0}};
  for (const Sample& sample : samples) {
    cases.add(
        {.op = "tril",
         .name = sample.name,
         .inputs = {{sample.sizes}},
         .run = [=](In x) { return one(tril(x[0], sample.diagonal)); },
         .reference = [=](Arrays x) { return one(triangle(x[0], sample.diagonal, Keep::lower)); },
         .dtypes = element_dtypes(),
         .inplace = [=](In x) { tril_(x[0], sample.diagonal); }});
    cases.add(
        {.op = "triu",
         .name = sample.name,
         .inputs = {{sample.sizes}},
         .run = [=](In x) { return one(triu(x[0], sample.diagonal)); },
         .reference = [=](Arrays x) { return one(triangle(x[0], sample.diagonal, Keep::upper)); },
         .dtypes = element_dtypes(),
         .inplace = [=](In x) { triu_(x[0], sample.diagonal); }});
  }
  cases.error("tril", "one dim", "at least 2 dimensions", [] { tril(zeros({3})); });
  cases.error("triu", "one dim", "at least 2 dimensions", [] { triu(zeros({3})); });
}

}  // namespace tensora::suite
