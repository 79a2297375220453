#include "tensora/dispatch/op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

void add(Cases& cases, const char* name, const Shape& from, const Shape& sizes,
         const Strides& strides, int64_t offset) {
  cases.add({.op = "as_strided",
             .name = name,
             .inputs = {{from}},
             .run =
                 [=](In x) {
                   // The strides given speak of a row-major tensor.
                   const Tensor plain = contiguous(x[0]);
                   return one(as_strided(plain, sizes, strides, plain.storage_offset() + offset));
                 },
             .reference =
                 [=](Arrays x) {
                   Array result(sizes);
                   Array::each(sizes, [&](const Shape& index) {
                     int64_t at = offset;
                     for (int d = 0; d < sizes.size(); ++d) at += index[d] * strides[d];
                     result.at(index) = x[0][at];
                   });
                   return one(result);
                 },
             .dtypes = element_dtypes(),
             .is_view = true});
}

}  // namespace

void as_strided_cases(Cases& cases) {
  add(cases, "transposed", {2, 3}, {3, 2}, {1, 3}, 0);
  add(cases, "windows", {7}, {3, 3}, {2, 1}, 0);
  add(cases, "offset", {3, 4}, {2, 2}, {4, 1}, 5);
  add(cases, "expanded", {3}, {2, 3}, {0, 1}, 0);
  add(cases, "0-dim", {4}, {}, {}, 2);
  add(cases, "empty", {4}, {0, 2}, {2, 1}, 0);
  cases.add({.op = "as_strided_backward",
             .name = "overlapping windows",
             .inputs = {{{3, 3}}},
             .run =
                 [](In x) {
                   return one(apply(as_strided_backward_op, {x[0]}, {{7}, {1}, {3, 3}, {2, 1}, 0}));
                 },
             .reference =
                 [](Arrays x) {
                   Array result(Shape{7});
                   Array::each({3, 3},
                               [&](const Shape& at) { result[2 * at[0] + at[1]] += x[0].at(at); });
                   return one(result);
                 }});
  cases.error("as_strided", "lengths", "got 2 sizes but 1 strides", [] {
    as_strided(zeros({4}), {2, 2}, {1});
  });
  cases.error("as_strided", "negative", "must not be negative",
              [] { as_strided(zeros({4}), {2}, {-1}); });
  cases.error("as_strided", "beyond the storage", "of a storage of 4 elements",
              [] { as_strided(zeros({4}), {5}, {1}); });
  cases.error("as_strided", "offset", "of a storage of 4 elements",
              [] { as_strided(zeros({4}), {2}, {1}, 3); });
}

}  // namespace tensora::suite
