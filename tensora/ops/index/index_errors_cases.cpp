#include <algorithm>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

Tensor at(std::initializer_list<int64_t> values) {
  Tensor result = empty({static_cast<int64_t>(values.size())}, {.dtype = kInt64});
  std::copy(values.begin(), values.end(), result.data_ptr<int64_t>());
  return result;
}

}  // namespace

void index_errors_cases(Cases& cases) {
  cases.error("index", "integer out of bounds",
              "index 3 is out of bounds for dimension 0 with size 3",
              [] { zeros({3}).index({3}); });
  cases.error("index", "second integer out of bounds",
              "index: index 5 is out of bounds for dimension 2 with size 5", [] {
                zeros({2, 3, 5}).index({0, Slice(), 5});
              });
  cases.error("index", "position out of bounds",
              "index: index 5 is out of bounds for dimension 1 with size 4", [] {
                zeros({3, 4}).index({Slice(), at({0, 5})});
              });
  cases.error("index", "negative out of bounds",
              "index: index -4 is out of bounds for dimension 0 with size 3",
              [] { zeros({3}).index({at({-4})}); });
  cases.error("index", "into an empty dim", "out of bounds for dimension 0 with size 0", [] {
    zeros({0, 2}).index({at({0})});
  });
  cases.error("index", "too many", "too many indices (3) for a tensor of 2 dimensions", [] {
    zeros({2, 2}).index({0, 0, 0});
  });
  cases.error("index", "0-dim", "invalid index of a 0-dim tensor", [] { zeros({}).index({0}); });
  cases.error("index", "two ellipses", "only one ellipsis", [] {
    zeros({2}).index({Ellipsis, Ellipsis});
  });
  cases.error("index", "float index", "must be int64, int32, bool or uint8, got float32",
              [] { zeros({2}).index({zeros({2})}); });
  cases.error("index", "mask of another shape", "does not match the indexed tensor", [] {
    zeros({2, 3}).index({zeros({3}, {.dtype = kBool})});
  });
  cases.error("index", "shapes of positions", "cannot be broadcast together", [] {
    zeros({4, 4}).index({at({0, 1}), at({0, 1, 2})});
  });
  cases.error("index", "slice step", "step must be positive",
              [] { zeros({4}).index({Slice(0, 4, -1)}); });
  cases.error("index", "too many dims", "at most 16 dimensions",
              [] { zeros(Shape::filled(kMaxDims, 1)).index({None}); });
  cases.error("index_put", "value shape", "cannot be broadcast to the indexed shape [2]", [] {
    zeros({4}).index_put_({at({0, 1})}, zeros({3}));
  });
  cases.error("index_put", "position out of bounds", "index_put: index 4 is out of bounds",
              [] { zeros({4}).index_put_({at({4})}, zeros({})); });
  cases.error("index_put", "leaf", "leaf Variable that requires grad",
              [] { zeros({4}, {.requires_grad = true}).index_put_({at({0})}, zeros({})); });
  cases.error("index_put", "expanded", "share one memory location",
              [] { expand(zeros({1}), {4}).index_put_({at({0})}, zeros({})); });

  cases.error("index_select", "out of bounds",
              "index_select: index 3 is out of bounds for dimension 0 with size 3", [] {
                index_select(zeros({3}), 0, at({0, 3}));
              });
  cases.error("index_select", "negative", "index_select: index -1 is out of bounds",
              [] { index_select(zeros({3}), 0, at({-1})); });
  cases.error("index_select", "matrix index", "expected a 1-D index", [] {
    index_select(zeros({3}), 0, zeros({1, 1}, {.dtype = kInt64}));
  });
  cases.error("index_select", "float index", "index of dtype int64 or int32, got float32",
              [] { index_select(zeros({3}), 0, zeros({1})); });
  cases.error("index_select", "dim out of range", "index_select: dimension out of range",
              [] { index_select(zeros({3}), 1, at({0})); });
  cases.error("index_add", "source shape", "expected a source of shape [2, 3]", [] {
    index_add(zeros({4, 3}), 0, at({0, 1}), zeros({3, 3}));
  });
  cases.error("index_add", "dtype", "expected values of dtype float32, got float64",
              [] { index_add(zeros({4}), 0, at({0}), zeros({1}, {.dtype = kFloat64})); });
  cases.error("index_add", "out of bounds", "index_add: index 4 is out of bounds",
              [] { index_add(zeros({4}), 0, at({4}), zeros({1})); });
  cases.error("index_copy", "source shape", "expected a source of shape", [] {
    index_copy(zeros({4, 3}), 1, at({0}), zeros({4, 2}));
  });
  cases.error("index_copy", "out of bounds", "index_copy: index -1 is out of bounds",
              [] { index_copy(zeros({4}), 0, at({-1}), zeros({1})); });
  cases.error("index_fill", "out of bounds", "index_fill: index -5 is out of bounds",
              [] { index_fill(zeros({4}), 0, at({-5}), 1); });
  cases.error("index_fill", "value", "expected a 0-dim value",
              [] { index_fill(zeros({4}), 0, at({0}), zeros({1})); });

  cases.error("gather", "out of bounds",
              "gather: index 4 is out of bounds for dimension 0 with size 4",
              [] { gather(zeros({4}), 0, at({4})); });
  cases.error("gather", "negative", "gather: index -1 is out of bounds",
              [] { gather(zeros({4}), 0, at({-1})); });
  cases.error("gather", "dims", "must have the same number of dimensions", [] {
    gather(zeros({4, 2}), 0, at({0}));
  });
  cases.error("gather", "larger index", "must not be larger than self", [] {
    gather(zeros({4, 2}), 0, zeros({1, 3}, {.dtype = kInt64}));
  });
  cases.error("gather", "float index", "index of dtype int64 or int32",
              [] { gather(zeros({4}), 0, zeros({1})); });
  cases.error("gather", "dim out of range", "gather: dimension out of range",
              [] { gather(zeros({4}), 1, at({0})); });
  cases.error("scatter", "out of bounds", "scatter: index 4 is out of bounds",
              [] { scatter(zeros({4}), 0, at({4}), zeros({1})); });
  cases.error("scatter", "small src", "must not be larger than src", [] {
    scatter(zeros({4}), 0, at({0, 1}), zeros({1}));
  });
  cases.error("scatter", "src dims", "must have the same number of dimensions", [] {
    scatter(zeros({4}), 0, at({0}), zeros({1, 1}));
  });
  cases.error("scatter", "dtype", "expected a src of dtype float32, got int64",
              [] { scatter(zeros({4}), 0, at({0}), at({1})); });
  cases.error("scatter_add", "out of bounds", "scatter_add: index -1 is out of bounds",
              [] { scatter_add(zeros({4}), 0, at({-1}), zeros({1})); });
  cases.error("take_along_dim", "dims", "must have the same number of dimensions", [] {
    take_along_dim(zeros({4, 2}), at({0}), 0);
  });
  cases.error("take_along_dim", "shapes", "cannot be broadcast together", [] {
    take_along_dim(zeros({4, 2}), zeros({3, 1}, {.dtype = kInt64}), 1);
  });
  cases.error("take", "out of bounds", "index 6 is out of bounds", [] {
    take(zeros({2, 3}), at({6}));
  });
  cases.error("take", "float index", "index of dtype int64 or int32", [] {
    take(zeros({2, 3}), zeros({1}));
  });
}

}  // namespace tensora::suite
