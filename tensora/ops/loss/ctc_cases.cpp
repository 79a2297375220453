#include "tensora/ops/loss/ctc.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  int64_t times, classes;
  std::vector<std::vector<double>> targets;
  std::vector<int64_t> input_lengths;
  int64_t blank = 0;
  bool together = false, zero_infinity = false;  // together: targets one after the other
};

// The probability of every alignment, one by one: sums over all strings of outputs.
double probability(const Array& p, const Sample& sample, size_t n) {
  const auto sequences = static_cast<int64_t>(sample.targets.size());
  const int64_t length = sample.input_lengths[n], classes = sample.classes;
  int64_t strings = 1;
  for (int64_t t = 0; t < length; ++t) strings *= classes;
  double total = 0;
  for (int64_t number = 0; number < strings; ++number) {
    std::vector<double> read;
    double product = 1;
    int64_t rest = number, before = -1;
    for (int64_t t = 0; t < length; ++t, rest /= classes) {
      const int64_t c = rest % classes;
      product *= p[(t * sequences + static_cast<int64_t>(n)) * classes + c];
      if (c != before && c != sample.blank) read.push_back(static_cast<double>(c));
      before = c;
    }
    if (read == sample.targets[n]) total += product;
  }
  return total;
}

Array normalised(const Array& x, int64_t classes) {
  Array p = x;
  for (int64_t row = 0; row < x.numel() / classes; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[row * classes + c]);
    for (int64_t c = 0; c < classes; ++c)
      p[row * classes + c] = std::exp(x[row * classes + c]) / sum;
  }
  return p;
}

Input targets_of(const Sample& sample) {
  size_t longest = 0;
  for (const auto& target : sample.targets) longest = std::max(longest, target.size());
  Input result{.dtype = kInt64};
  for (const auto& target : sample.targets)
    for (size_t i = 0; i < (sample.together ? target.size() : longest); ++i)
      result.values.push_back(i < target.size() ? target[i] : 1);
  result.sizes = {static_cast<int64_t>(result.values.size())};
  if (!sample.together)
    result.sizes = {static_cast<int64_t>(sample.targets.size()), static_cast<int64_t>(longest)};
  return result;
}

void add_sample(Cases& cases, const Sample& sample, bool impossible = false) {
  const auto sequences = static_cast<int64_t>(sample.targets.size());
  std::vector<int64_t> lengths;
  for (const auto& target : sample.targets) lengths.push_back(static_cast<int64_t>(target.size()));
  for (Reduction::Kind kind : {Reduction::none, Reduction::mean, Reduction::sum})
    cases.add(
        {.op = "ctc_loss",
         .name = concat(sample.name, ", ", names_of(std::type_identity<Reduction::Kind>{})[kind]),
         .inputs = {{{sample.times, sequences, sample.classes}}, targets_of(sample)},
         .run =
             [sample, lengths, kind](In x) {
               // Normalised: what the gradient presupposes.
               const Tensor logs = x[0] - logsumexp(x[0], {2}, true);
               return one(ctc_loss(logs, x[1], sample.input_lengths, lengths, sample.blank, kind,
                                   sample.zero_infinity));
             },
         .reference =
             [sample, lengths, kind, sequences](Arrays x) {
               const Array p = normalised(x[0], sample.classes);
               Array losses(Shape{sequences}), total(Shape{});
               for (int64_t n = 0; n < sequences; ++n) {
                 const auto at = static_cast<size_t>(n);
                 double loss = -std::log(probability(p, sample, at));
                 if (sample.zero_infinity && std::isinf(loss)) loss = 0;
                 losses[n] = loss;
                 const auto length = static_cast<double>(std::max<int64_t>(1, lengths[at]));
                 total[0] += kind == Reduction::mean
                                 ? loss / length / static_cast<double>(sequences)
                                 : loss;
               }
               return one(kind == Reduction::none ? losses : total);
             },
         .dtypes = {kFloat32, kFloat64},
         .tolerance = 16,
         .opt_out = impossible ? std::map<Mode, std::string>{{Mode::grad, "infinite"}}
                               : std::map<Mode, std::string>()});
}

}  // namespace

void ctc_cases(Cases& cases) {
  add_sample(cases, {"padded", 4, 3, {{1, 2}, {2, 2}, {1}}, {4, 4, 3}});
  add_sample(cases, {"together", 4, 3, {{0, 1}, {1, 1}}, {3, 4}, 2, true});
  add_sample(cases, {"no labels", 3, 3, {{}, {2}}, {3, 2}});
  add_sample(cases, {"impossible", 2, 3, {{1, 1}, {2}}, {2, 2}}, true);
  add_sample(cases, {"impossible as 0", 2, 3, {{1, 1}, {2}}, {2, 2}, 0, false, true});
  cases.add({.op = "ctc_loss",
             .name = "one sequence, lengths as tensors",
             .inputs = {{{3, 3}}, {.sizes = {1}, .dtype = kInt64, .values = {1}}},
             .run =
                 [](In x) {
                   const Tensor logs = x[0] - logsumexp(x[0], {1}, true);
                   return one(ctc_loss(logs, x[1], tensor({3}), tensor({1}), 0, "none"));
                 },
             .reference =
                 [](Arrays x) {
                   const Sample sample{"", 3, 3, {{1}}, {3}};
                   Array out(Shape{});
                   out[0] = -std::log(probability(normalised(x[0], 3), sample, 0));
                   return one(out);
                 },
             .dtypes = {kFloat32, kFloat64},
             .tolerance = 16,
             .opt_out = {{Mode::jit, "lengths are read on the host"}}});
  const auto logs = [] { return zeros({4, 2, 3}); };
  cases.error("ctc_loss", "lengths", "expected 2 input_lengths, got 1", [=] {
    ctc_loss(logs(), zeros({2, 1}, {.dtype = kInt64}), std::vector<int64_t>{4}, {1, 1});
  });
  cases.error("ctc_loss", "too long", "input_lengths must be between 0 and 4, got 5", [=] {
    ctc_loss(logs(), zeros({2, 1}, {.dtype = kInt64}), std::vector<int64_t>{4, 5}, {1, 1});
  });
  cases.error("ctc_loss", "blank", "blank must be one of 3 classes, got 3", [=] {
    ctc_loss(logs(), zeros({2, 1}, {.dtype = kInt64}), std::vector<int64_t>{4, 4}, {1, 1}, 3);
  });
  cases.error("ctc_loss", "sum of lengths", "expected 3 targets", [=] {
    ctc_loss(logs(), ones({2}, {.dtype = kInt64}), std::vector<int64_t>{4, 4}, {1, 2});
  });
}

}  // namespace tensora::suite
