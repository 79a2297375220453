#include "tensora/ops/reduce/pick.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// Which row of a 3 x 4 matrix is taken in each column.
const Input kRows{.sizes = {4}, .dtype = kInt64, .values = {2, 0, 1, 2}};

int64_t row_at(Arrays x, int64_t column) { return static_cast<int64_t>(x[1][column]); }

}  // namespace

void pick_cases(Cases& cases) {
  const PickAttrs attrs{.sizes = {3, 4}, .dim = 0};
  cases.add({.op = "pick",
             .name = "one of each column",
             .inputs = {{{3, 4}}, kRows},
             .run = [=](In x) { return one(pick(x[0], x[1], attrs)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{4});
                   for (int64_t j = 0; j < 4; ++j) out[j] = x[0].at({row_at(x, j), j});
                   return one(out);
                 }});
  cases.add({.op = "put_picked",
             .name = "one of each column",
             .inputs = {{{4}}, kRows},
             .run = [=](In x) { return one(put_picked(x[0], x[1], attrs)); },
             .reference =
                 [](Arrays x) {
                   Array out(Shape{3, 4});
                   for (int64_t j = 0; j < 4; ++j) out.at({row_at(x, j), j}) = x[0][j];
                   return one(out);
                 }});
}

}  // namespace tensora::suite
