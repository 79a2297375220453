#include "tensora/ops/sparse/csr_transpose.h"

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

void add(Cases& cases, const std::string& name, int64_t columns, std::vector<double> crow,
         std::vector<double> col) {
  const auto input = [](std::vector<double> values) {
    const auto count = static_cast<int64_t>(values.size());
    return Input{.sizes = {count}, .dtype = kInt64, .values = std::move(values)};
  };
  cases.add({.op = "csr_transpose",
             .name = name,
             .inputs = {input(std::move(crow)), input(std::move(col))},
             .run =
                 [=](In x) {
                   const auto [begins, rows, order] = csr_transpose(x[0], x[1], columns);
                   return Out{begins, rows, order};
                 },
             .reference =
                 [=](Arrays x) {
                   Array begins({columns + 1}), rows(x[1].sizes), order(x[1].sizes);
                   int64_t next = 0;
                   for (int64_t column = 0; column < columns; ++column) {
                     for (int64_t row = 0; row + 1 < x[0].numel(); ++row)
                       for (auto e = static_cast<int64_t>(x[0][row]);
                            e < static_cast<int64_t>(x[0][row + 1]); ++e) {
                         if (static_cast<int64_t>(x[1][e]) != column) continue;
                         rows[next] = static_cast<double>(row);
                         order[next++] = static_cast<double>(e);
                       }
                     begins[column + 1] = static_cast<double>(next);
                   }
                   return ArrayList{begins, rows, order};
                 },
             .dtypes = {kInt64}});
}

}  // namespace

void csr_transpose_cases(Cases& cases) {
  add(cases, "small", 4, {0, 2, 2, 5}, {1, 3, 0, 3, 1});
  add(cases, "unsorted, with an entry twice", 3, {0, 4}, {2, 0, 2, 0});
  add(cases, "no entries", 3, {0, 0, 0}, {});
  add(cases, "no rows", 3, {0}, {});
  add(cases, "no columns", 0, {0, 0}, {});
  std::vector<double> crow{0}, col;
  for (int row = 0; row < 40000; ++row) {
    for (int e = 0; e < 4; ++e) col.push_back((row * 7 + e * 13) % 11);
    crow.push_back(static_cast<double>(col.size()));
  }
  add(cases, "counted in parts", 11, crow, col);
  const auto index = [](std::initializer_list<int64_t> values) { return tensor(values, kInt64); };
  cases.error("csr_transpose", "column beyond the matrix", "column index 4 is out of bounds", [=] {
    csr_transpose(index({0, 1}), index({4}), 4);
  });
  cases.error("csr_transpose", "fewer entries", "must ascend from 0 to the number of entries, 1",
              [=] {
                csr_transpose(index({0, 2}), index({0}), 4);
              });
  cases.error("csr_transpose", "negative size", "columns must not be negative, got -1",
              [=] { csr_transpose(index({0}), index({}), -1); });
  cases.error("csr_transpose", "floating indices", "col_indices must be a 1-D int64 tensor", [=] {
    csr_transpose(index({0, 1}), ones({1}), 4);
  });
}

}  // namespace tensora::suite
