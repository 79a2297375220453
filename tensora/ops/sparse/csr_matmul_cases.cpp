#include "tensora/ops/sparse/csr_matmul.h"

#include "tensora/ops/sparse/csr_transpose.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  int64_t columns, width;
  std::vector<double> crow, col;
  bool big = false;

  int64_t rows() const { return static_cast<int64_t>(crow.size()) - 1; }
  int64_t nnz() const { return static_cast<int64_t>(col.size()); }
  Input crow_input() const { return index(crow); }
  Input col_input() const { return index(col); }
  // Calls body(row, column, entry) for all entries, by the arrays that the case was given.
  static void each(Arrays x, const std::function<void(int64_t, int64_t, int64_t)>& body) {
    for (int64_t row = 0; row + 1 < x[0].numel(); ++row)
      for (auto e = static_cast<int64_t>(x[0][row]); e < static_cast<int64_t>(x[0][row + 1]); ++e)
        body(row, static_cast<int64_t>(x[1][e]), e);
  }
  static Input index(const std::vector<double>& values) {
    return {.sizes = {static_cast<int64_t>(values.size())}, .dtype = kInt64, .values = values};
  }
};

// Rows of 0 to 12 entries at columns that jump about.
Sample generated(const char* name, int64_t rows, int64_t columns, int64_t width, bool big = false) {
  Sample sample{name, columns, width, {0}, {}, big};
  uint64_t state = 1;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t e = 0; e < row % 13; ++e) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sample.col.push_back(static_cast<double>((state >> 33) % static_cast<uint64_t>(columns)));
    }
    sample.crow.push_back(static_cast<double>(sample.col.size()));
  }
  return sample;
}

std::vector<Sample> samples() {
  return {
      {"small", 4, 3, {0, 2, 2, 3}, {1, 3, 0}},
      {"one column", 4, 1, {0, 2, 2, 3}, {3, 1, 0}},
      {"an entry twice", 3, 2, {0, 3}, {1, 1, 1}},
      {"no entries", 4, 3, {0, 0, 0}, {}},
      {"no rows", 4, 3, {0}, {}},
      {"no columns", 0, 3, {0, 0}, {}},
      {"no width", 3, 0, {0, 1, 2}, {2, 0}},
      generated("five wide", 14, 9, 5),
      generated("width 11", 14, 9, 11),
      generated("width 37", 14, 9, 37),
  };
}

std::map<Mode, std::string> without_gradient(const Sample& sample) {
  if (sample.width * sample.columns < 100) return {};
  return {{Mode::grad, "too many elements"}};
}

void add_matmul(Cases& cases, const Sample& sample, std::vector<DType> dtypes) {
  cases.add({.op = "csr_matmul",
             .name = sample.name,
             .inputs = {sample.crow_input(),
                        sample.col_input(),
                        {{sample.nnz()}},
                        {{sample.columns, sample.width}}},
             .run = [](In x) { return one(csr_matmul(x[0], x[1], x[2], x[3])); },
             .reference =
                 [=](Arrays x) {
                   Array out({sample.rows(), sample.width});
                   Sample::each(x, [&](int64_t row, int64_t column, int64_t e) {
                     for (int64_t j = 0; j < sample.width; ++j)
                       out[row * sample.width + j] += x[2][e] * x[3][column * sample.width + j];
                   });
                   return one(out);
                 },
             .dtypes = std::move(dtypes),
             .tolerance = 4,
             .opt_out = without_gradient(sample),
             .big = sample.big});
}

void add_sampled(Cases& cases, const Sample& sample, std::vector<DType> dtypes) {
  cases.add({.op = "csr_sampled_matmul",
             .name = sample.name,
             .inputs = {sample.crow_input(),
                        sample.col_input(),
                        {{sample.rows(), sample.width}},
                        {{sample.columns, sample.width}}},
             .run = [](In x) { return one(csr_sampled_matmul(x[0], x[1], x[2], x[3])); },
             .reference =
                 [=](Arrays x) {
                   Array out({sample.nnz()});
                   Sample::each(x, [&](int64_t row, int64_t column, int64_t e) {
                     for (int64_t j = 0; j < sample.width; ++j)
                       out[e] += x[2][row * sample.width + j] * x[3][column * sample.width + j];
                   });
                   return one(out);
                 },
             .dtypes = std::move(dtypes),
             .tolerance = 4,
             .opt_out = without_gradient(sample),
             .big = sample.big});
}

Tensor index(std::initializer_list<int64_t> values) { return tensor(values, kInt64); }

void add_errors(Cases& cases) {
  const auto product = [&](const char* name, const char* message,
                           const std::function<Tensor()>& run) {
    cases.error("csr_matmul", name, message, [run] { run(); });
  };
  product("column beyond the matrix", "column index 3 is out of bounds for a matrix of 3 columns",
          [] {
            return csr_matmul(index({0, 1}), index({3}), ones({1}), ones({3, 2}));
          });
  product("negative column", "column index -1 is out of bounds", [] {
    return csr_matmul(index({0, 1}), index({-1}), ones({1}), ones({3, 2}));
  });
  product("descending rows", "must ascend from 0 to the number of entries, 2", [] {
    return csr_matmul(index({0, 2, 1, 2}), index({0, 1}), ones({2}), ones({3, 2}));
  });
  product("rows that begin late", "must ascend from 0", [] {
    return csr_matmul(index({1, 2}), index({0, 1}), ones({2}), ones({3, 2}));
  });
  product("rows beyond the entries", "must ascend from 0", [] {
    return csr_matmul(index({0, 9}), index({0, 1}), ones({2}), ones({3, 2}));
  });
  product("indices of another dtype", "crow_indices must be a 1-D int64 tensor", [] {
    return csr_matmul(ones({2}), index({0}), ones({1}), ones({3, 2}));
  });
  product("no row pointers", "with an element more than there are rows, got shape [0]", [] {
    return csr_matmul(index({}), index({}), ones({0}), ones({3, 2}));
  });
  product("too few values", "expected a contiguous value for each of 2 column indices", [] {
    return csr_matmul(index({0, 2}), index({0, 1}), ones({1}), ones({3, 2}));
  });
  product("two dtypes", "expected one dtype, got float32 and float64", [] {
    return csr_matmul(index({0, 1}), index({0}), ones({1}), ones({3, 2}, kFloat64));
  });
  product("bool", "expected numbers, got bool", [] {
    return csr_matmul(index({0, 1}), index({0}), ones({1}, kBool), ones({3, 2}, kBool));
  });
  product("a dense vector", "expected a matrix whose rows are contiguous, got shape [3]", [] {
    return csr_matmul(index({0, 1}), index({0}), ones({1}), ones({3}));
  });
  cases.error("csr_sampled_matmul", "other rows", "expected a matrix of 1 contiguous rows", [] {
    csr_sampled_matmul(index({0, 1}), index({0}), ones({2, 2}), ones({3, 2}));
  });
  cases.error("csr_sampled_matmul", "rows of two lengths", "expected rows of one length", [] {
    csr_sampled_matmul(index({0, 1}), index({0}), ones({1, 4}), ones({3, 2}));
  });
  cases.error("csr_sampled_matmul", "column beyond the matrix", "column index 5 is out of bounds",
              [] {
                csr_sampled_matmul(index({0, 1}), index({5}), ones({1, 2}), ones({3, 2}));
              });
}

}  // namespace

void csr_matmul_cases(Cases& cases) {
  std::vector<DType> dtypes = number_dtypes();
  dtypes.push_back(kComplex64);
  dtypes.push_back(kComplex128);
  for (const Sample& sample : samples()) {
    add_matmul(cases, sample, dtypes);
    add_sampled(cases, sample, dtypes);
  }
  // Wide enough for every kind of block, and enough rows for several threads.
  const Sample wide = generated("width 253", 500, 300, 253);
  const Sample big = generated("20,000 rows of 6, width 64", 20000, 20000, 64, true);
  for (const auto add : {add_matmul, add_sampled}) {
    add(cases, wide, floating_dtypes());
    add(cases, big, floating_dtypes());
  }
  add_errors(cases);
}

}  // namespace tensora::suite
