#include "tensora/ops/sort/topk.h"

#include "tensora/ops/sort/line_cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;
  int64_t k, dim;
  bool largest = true;
  std::vector<double> values = {};
  double low = -3, high = 3;
};

Case sample_of(const Sample& s, const std::vector<DType>& dtypes) {
  return {.op = "topk",
          .name = s.name,
          .inputs = {{.sizes = s.sizes, .low = s.low, .high = s.high, .values = s.values}},
          .run =
              [=](In x) {
                const auto [values, indices] = topk(x[0], s.k, s.dim, s.largest);
                return Out{values, indices};
              },
          .reference =
              [=](Arrays x) {
                return chosen_of_lines(x[0], s.dim, s.k, [=](const Line& line) {
                  auto order = ordered(line, s.largest);
                  order.resize(static_cast<size_t>(s.sizes.empty() ? 1 : s.k));
                  return order;
                });
              },
          .dtypes = dtypes,
          .output_dtypes = {std::nullopt, kInt64}};
}

// Rows of four-byte elements whose largest are those that few threads of a block read on the GPU,
// by 16 bytes each: the firsts of the threads say little then (Note [The largest of long rows]).
Line crowded(const Shape& sizes) {
  Line result;
  for (int64_t row = 0; row < sizes[0]; ++row)
    for (int64_t i = 0; i < sizes[1]; ++i)
      result.push_back(static_cast<double>(i * 7919 % 977) + (i / 4 % 512 < 90 ? 1000 : 0));
  return result;
}

void add_long(Cases& cases, const Sample& s, const std::vector<DType>& dtypes) {
  Case sample = sample_of(s, dtypes);
  sample.opt_out = {{Mode::grad, "neighbours closer than the step of finite differences"}};
  if (s.sizes.numel() > 100000) sample.opt_out[Mode::view] = "the shorter rows have it";
  cases.add(sample);
}

// Few of rows in which a bound on the threads' firsts lets in just enough, or far too many.
void bounded_samples(Cases& cases) {
  const Sample samples[] = {{"all equal", {3, 5000}, 8, 1, true, {}, 1, 1},
                            {"all equal, of a cut row", {40000}, 100, 0, false, {}, 1, 1},
                            {"ties everywhere", {3, 5000}, 8, 1, true, {}, 0, 3},
                            {"a fourth of the threads", {3, 2048}, 128, 1},
                            {"more than a fourth", {3, 2048}, 129, 1},
                            {"rows too short for a bound", {3, 2047}, 8, 1, false},
                            {"rows that begin anywhere", {5, 4099}, 20, 1}};
  for (const Sample& s : samples)
    add_long(cases, s, {kFloat32, kFloat64, kBFloat16, kInt64, kInt8, kBool});
  const Shape sizes = {2, 20000};
  for (const Sample& s : {Sample{"crowded, fewer", sizes, 50, 1}, Sample{"crowded", sizes, 100, 1},
                          Sample{"crowded, more", sizes, 128, 1}}) {
    add_long(cases, s, {kFloat32, kInt32});
    cases.samples.back().inputs[0].values = crowded(sizes);
  }
}

}  // namespace

void topk_cases(Cases& cases) {
  const Sample samples[] = {{"vector", {7}, 3, 0},
                            {"smallest", {3, 5}, 2, 1, false},
                            {"columns", {5, 3}, 2, 0},
                            {"middle", {2, 4, 3}, 4, 1},
                            {"0-dim", {}, 1, 0},
                            {"none", {3, 2}, 0, 1},
                            {"of empty lines", {3, 0}, 0, 1},
                            {"no lines", {0, 3}, 2, -1}};
  for (const Sample& s : samples) cases.add(sample_of(s, all_dtypes()));
  Case specials = sample_of({"NaN and ties",
                             {2, 8},
                             5,
                             1,
                             true,
                             {1, kNan, -kInf, 0, -0.0, kInf, kNan, -1,  //
                              0, 0, 1, -0.0, kInf, 1, -1, 1}},
                            floating_dtypes());
  specials.opt_out = {{Mode::grad, "ties and NaN"}};
  cases.add(specials);
  const Sample long_samples[] = {{"few of many rows", {40, 300}, 5, 1},
                                 {"few of long rows", {3, 20000}, 50, 1},
                                 {"few of long columns", {5000, 3}, 7, 0, false},
                                 {"half of the rows", {5, 900}, 450, 1},
                                 {"half of long rows", {2, 9000}, 4500, 1, false},
                                 {"of one line, on all threads", {300001}, 100, 0},
                                 {"half of one line", {140001}, 70001, 0}};
  for (const Sample& s : long_samples)
    add_long(cases, s,
             s.sizes.numel() > 100000
                 ? std::vector<DType>{kFloat32, kInt16, kInt64}
                 : std::vector<DType>{kFloat32, kFloat64, kBFloat16, kInt64, kInt8});
  bounded_samples(cases);
  cases.error("topk", "k too large", "k must be between 0 and 3", [] { topk(ones({3}), 4); });
  cases.error("topk", "k below 0", "k must be between 0 and 3", [] { topk(ones({3}), -1); });
  cases.error("topk", "dim out of range", "out of range", [] { topk(ones({3}), 1, 1); });
}

}  // namespace tensora::suite
