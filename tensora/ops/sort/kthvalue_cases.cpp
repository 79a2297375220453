#include <cmath>

#include "tensora/ops/sort/kthvalue.h"

#include "tensora/ops/reduce/reduce_cases.h"
#include "tensora/ops/sort/line_cases.h"
#include "tensora/ops/sort/rank.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;
  int64_t dim;
  bool keepdim = false;
  std::vector<double> values = {};
};

std::vector<DType> with_integers() { return number_dtypes(); }

Case sample_of(const char* op, const Sample& s, const RankRule& rule,
               std::function<std::tuple<Tensor, Tensor>(const Tensor&)> run) {
  return {.op = op,
          .name = concat("with indices, ", s.name),
          .inputs = {{.sizes = s.sizes, .values = s.values}},
          .run =
              [=](In x) {
                const auto [values, indices] = run(x[0]);
                return Out{values, indices};
              },
          .reference =
              [=](Arrays x) {
                ArrayList both = chosen_of_lines(x[0], s.dim, 1, [=](const Line& line) {
                  const auto nans = std::count_if(line.begin(), line.end(),
                                                  [](double v) { return std::isnan(v); });
                  const int64_t rank = rule.rank(static_cast<int64_t>(line.size()), nans);
                  return std::vector<int64_t>{ordered(line, false)[static_cast<size_t>(rank)]};
                });
                if (s.keepdim || s.sizes.empty()) return both;
                Shape sizes;
                const int dim = wrap_dim(s.dim, s.sizes.size(), op);
                for (int d = 0; d < s.sizes.size(); ++d)
                  if (d != dim) sizes.push_back(s.sizes[d]);
                for (Array& array : both) array.sizes = sizes;
                return both;
              },
          .dtypes = with_integers(),
          .output_dtypes = {std::nullopt, kInt64}};
}

std::vector<Case> cases_of(const Sample& s) {
  using Kind = RankRule::Kind;
  const int64_t n = s.sizes.empty() ? 1 : s.sizes[wrap_dim(s.dim, s.sizes.size(), "kthvalue")];
  const int64_t k = (n + 2) / 3;
  return {sample_of("median", s, {Kind::median},
                    [=](const Tensor& x) { return median(x, s.dim, s.keepdim); }),
          sample_of("nanmedian", s, {Kind::nanmedian},
                    [=](const Tensor& x) { return nanmedian(x, s.dim, s.keepdim); }),
          sample_of("kthvalue", s, {Kind::kth, k},
                    [=](const Tensor& x) { return kthvalue(x, k, s.dim, s.keepdim); })};
}

void add_of_all(Cases& cases, const char* name, const Shape& sizes, const Line& values = {}) {
  for (const bool ignore_nan : {false, true}) {
    Case sample{
        .op = ignore_nan ? "nanmedian" : "median",
        .name = name,
        .inputs = {{.sizes = sizes, .values = values}},
        .run = [=](In x) { return one(ignore_nan ? nanmedian(x[0]) : median(x[0])); },
        .reference =
            [=](Arrays x) {
              Line kept;
              for (double v : x[0].values)
                if (!ignore_nan || !std::isnan(v)) kept.push_back(v);
              if (kept.empty()) return one(Array({}, kNan));
              for (double v : kept)
                if (std::isnan(v)) return one(Array({}, kNan));
              std::sort(kept.begin(), kept.end());
              return one(Array({}, kept[(kept.size() - 1) / 2]));
            },
        .dtypes = values.empty() && sizes.numel() > 0 ? with_integers() : floating_dtypes()};
    if (!values.empty()) sample.opt_out = {{Mode::grad, "ties or NaN"}};
    if (sizes.numel() > 1000)
      sample.opt_out = {{Mode::grad, "neighbours closer than the step of finite differences"}};
    if (sizes.numel() == 0) sample.opt_out = {{Mode::grad, "a constant"}};
    cases.add(sample);
  }
}

}  // namespace

void kthvalue_cases(Cases& cases) {
  const Sample samples[] = {
      {"vector", {7}, 0},           {"rows", {3, 6}, 1, true}, {"columns", {5, 3}, 0},
      {"middle", {2, 4, 3}, 1},     {"0-dim", {}, 0},          {"one element", {1}, -1},
      {"no lines", {0, 3}, 1, true}};
  for (const Sample& s : samples)
    for (Case& sample : cases_of(s)) cases.add(sample);
  const Line specials = {1,    kNan, -kInf, 0,    -0.0, kInf, kNan, 0, 0, 1, 3, 3, 1, 1,  //
                         kNan, kNan, kNan,  kNan, kNan, kNan, kNan};
  for (Case& sample : cases_of({"NaN and ties", {3, 7}, 1, false, specials})) {
    sample.dtypes = floating_dtypes();
    sample.opt_out = {{Mode::grad, "ties and NaN"}};
    cases.add(sample);
  }
  for (const Sample& s : {Sample{"many rows", {70, 300}, 1}, Sample{"long columns", {5000, 3}, 0},
                          Sample{"long rows", {2, 20000}, 1}, Sample{"one line", {300001}, 0}})
    for (Case& sample : cases_of(s)) {
      sample.dtypes = {kFloat32, kFloat64, kBFloat16, kInt64, kInt8};
      sample.opt_out = {{Mode::grad, "neighbours closer than the step of finite differences"}};
      if (s.sizes.numel() > 100000) {
        sample.dtypes = {kFloat32, kInt64};
        sample.opt_out[Mode::view] = "the shorter rows have it";
      }
      cases.add(sample);
    }
  // Equal elements are told apart by their positions, which have one to three digits.
  for (const Sample& s :
       {Sample{"equal, one digit of positions", {3, 256}, 1},
        Sample{"equal, two digits", {3, 257}, 1}, Sample{"equal, all of two digits", {2, 65536}, 1},
        Sample{"equal, three digits", {1, 65537}, 1}})
    for (Case& sample : cases_of(s)) {
      sample.inputs[0].values = Line(static_cast<size_t>(s.sizes.numel()), 2);
      sample.dtypes = {kFloat32, kInt64, kUInt8};
      sample.opt_out = {{Mode::grad, "ties"}, {Mode::view, "the long rows have it"}};
      cases.add(sample);
    }
  add_of_all(cases, "matrix", {3, 4});
  add_of_all(cases, "0-dim", {});
  add_of_all(cases, "of nothing", {0, 2});
  add_of_all(cases, "many", {301, 17});
  add_of_all(cases, "NaN", {2, 3}, {1, kNan, 2, kNan, 3, 0});
  add_of_all(cases, "only NaN", {2}, {kNan, kNan});
  cases.add(gradient_case("median", "elements that tie share the gradient", {2, 3},
                          {1, 2, 2, 3, 2, 1}, {0, 1. / 3, 1. / 3, 0, 1. / 3, 0},
                          [](const Tensor& x) { return median(x); }));
  cases.error("kthvalue", "k too large", "k must be between 1 and 3",
              [] { kthvalue(ones({3}), 4); });
  cases.error("kthvalue", "k of 0", "k must be between 1 and 3", [] { kthvalue(ones({3}), 0); });
  cases.error("kthvalue", "of nothing", "has size 0", [] { kthvalue(ones({3, 0}), 1); });
  cases.error("median", "over an empty dim", "has size 0", [] { median(ones({3, 0}), 1); });
  cases.error("nanmedian", "dim out of range", "out of range", [] { nanmedian(ones({3}), 1); });
}

}  // namespace tensora::suite
