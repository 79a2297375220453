#include <algorithm>
#include <cmath>
#include <numeric>

#include "tensora/core/philox.h"
#include "tensora/ops/sampling/sample_tokens.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  std::string name;
  int64_t vocabulary;
  double temperature = 0.8, top_p = 1, min_p = 0;
  int64_t top_k = 40;
  std::vector<double> logits = {};  // of all rows; drawn unless given
  double spread = 5;
};
constexpr int64_t kRows = 6;

// Each row has a seed and a draw of its own, and every other row a colder temperature.
std::vector<double> numbers_of(const Sample& s) {
  std::vector<double> all;
  for (int64_t r = 0; r < kRows; ++r)
    for (double number : {r % 2 ? s.temperature : s.temperature / 2, s.top_p, s.min_p})
      all.push_back(number);
  return all;
}
std::vector<double> integers_of(const Sample& s) {
  std::vector<double> all;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t integer : {s.top_k, 12345 + 77 * r, r * r})
      all.push_back(static_cast<double>(integer));
  return all;
}

double chosen(const double* logits, int64_t count, const double* numbers, const double* integers) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < count; ++i) {
    if (!(logits[i] < HUGE_VAL)) return -1;
    if (logits[i] > -HUGE_VAL) order.push_back(i);
  }
  if (order.empty()) return -1;
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  const double temperature = numbers[0], most = logits[order[0]];
  if (temperature == 0) return static_cast<double>(order[0]);
  const auto cut = [&](size_t size) { order.resize(std::min(order.size(), size)); };
  const auto mass = [&](double factor) {
    double sum = 0;
    for (int64_t i : order) sum += std::exp((logits[i] - most) * factor);
    return sum;
  };
  cut(static_cast<size_t>(integers[0]));
  double target = numbers[1] * mass(1), sum = 0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || sum < target))
    sum += std::exp(logits[order[kept++]] - most);
  if (numbers[1] < 1) cut(kept);
  std::erase_if(order, [&](int64_t i) { return std::exp(logits[i] - most) < numbers[2]; });
  const PhiloxWords words =
      philox(static_cast<uint64_t>(integers[1]), static_cast<uint64_t>(integers[2]));
  target = mass(1 / temperature) * ((uint64_t{words.word[0]} << 32 | words.word[1]) * 0x1p-64);
  sum = 0;
  for (int64_t i : order)
    if ((sum += std::exp((logits[i] - most) / temperature)) > target) return static_cast<double>(i);
  return static_cast<double>(order[0]);
}

ArrayList expected(Arrays x) {
  Array out({kRows});
  const int64_t count = x[0].sizes[1];
  for (int64_t r = 0; r < kRows; ++r)
    out[r] =
        chosen(&x[0].values[static_cast<size_t>(r * count)], count,
               &x[1].values[static_cast<size_t>(r * 3)], &x[2].values[static_cast<size_t>(r * 3)]);
  return one(out);
}

std::vector<double> rows_of(int64_t vocabulary, double (*logit)(int64_t token)) {
  std::vector<double> all;
  for (int64_t i = 0; i < kRows * vocabulary; ++i) all.push_back(logit(i % vocabulary));
  return all;
}

std::vector<Sample> samples() {
  return {
      {"greedy", 1000, 0},
      {"greedy of equals", 40, 0, 1, 0, 40,
       rows_of(40, [](int64_t t) { return t % 7 == 3 ? 2.0 : -0.0; })},
      {"top_k", 5000},
      {"top_k of 1", 5000, 0.8, 1, 0, 1},
      {"many of many", 9999, 0.9, 1, 0, 1024},
      {"more than there are", 300, 1, 1, 0, 1000},
      {"one token", 1},
      {"top_p", 5000, 1, 0.7},
      {"top_p of 0", 5000, 1, 0},
      {"min_p", 5000, 1.3, 1, 0.2},
      {"all steps", 4097, 0.7, 0.9, 0.05, 100},
      {"cold", 3000, 1e-6},
      {"hot", 3000, 50, 1, 0, 512},
      {"equals", 6000, 1, 1, 0, 50, rows_of(6000, [](int64_t) { return 1.5; })},
      {"few groups", 8192, 1, 1, 0, 700,
       rows_of(8192, [](int64_t t) { return t < 3000 ? 3 + double(t) * 1e-3 : -5.0; })},
      {"forbidden", 2048, 1, 0.9, 0, 40,
       rows_of(2048, [](int64_t t) { return t % 700 == 5 ? double(t) * 1e-3 : -HUGE_VAL; })},
      {"all forbidden", 50, 1, 1, 0, 40, rows_of(50, [](int64_t) { return -HUGE_VAL; })},
      {"not a number", 500, 1, 1, 0, 40,
       rows_of(500, [](int64_t t) { return t == 300 ? NAN : double(t % 13); })},
      {"infinite", 500, 0, 1, 0, 40,
       rows_of(500, [](int64_t t) { return t == 300 ? HUGE_VAL : double(t % 13); })},
  };
}

}  // namespace

void sample_tokens_cases(Cases& cases) {
  for (const Sample& s : samples())
    cases.add({.op = "sample_tokens",
               .name = s.name,
               .inputs = {{{kRows, s.vocabulary}, -s.spread, s.spread, {}, s.logits},
                          {{kRows, 3}, 0, 1, kFloat64, numbers_of(s)},
                          {{kRows, 3}, 0, 1, kInt64, integers_of(s)}},
               .run = [](In x) { return one(sample_tokens(x[0], x[1], x[2])); },
               .reference = expected,
               .dtypes = {kFloat32},
               .output_dtype = [](DType) { return kInt64; },
               .opt_out = {{Mode::grad, "inference ops have no gradient"}}});
  const auto make = [](const Shape& sizes, DType dtype) {
    return zeros(sizes, {.dtype = dtype, .device = device()});
  };
  cases.error("sample_tokens", "numbers", "numbers must be float64 of shape [2, 3], got float64 [2",
              [=] {
                sample_tokens(make({2, 9}, kFloat32), make({2, 2}, kFloat64), make({2, 3}, kInt64));
              });
  cases.error(
      "sample_tokens", "integers", "integers must be int64 of shape [2, 3], got float64 [2, 3]",
      [=] {
        sample_tokens(make({2, 9}, kFloat32), make({2, 3}, kFloat64), make({2, 3}, kFloat64));
      });
  cases.error("sample_tokens", "logits", "logits must be a float32 matrix, got float32 [9]", [=] {
    sample_tokens(make({9}, kFloat32), make({1, 3}, kFloat64), make({1, 3}, kInt64));
  });
  cases.error("sample_tokens", "no tokens", "expected from 1 to 2^23 tokens, got 0", [=] {
    sample_tokens(make({2, 0}, kFloat32), make({2, 3}, kFloat64), make({2, 3}, kInt64));
  });
}

}  // namespace tensora::suite
