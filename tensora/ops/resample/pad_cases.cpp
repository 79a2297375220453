#include "tensora/ops/resample/pad.h"

#include <algorithm>
#include <limits>

#include "tensora/ops/pool/pool_common.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  const char* name;
  Shape sizes;
  std::vector<int64_t> pad;
  std::string_view mode = "constant";
  double value = 0;
  bool channels_last = false;
};

Array padded(const Array& x, const Sample& s) {
  Shape sizes = x.sizes;
  const auto before = [&](int d) {
    const size_t k = static_cast<size_t>(sizes.size() - 1 - d);
    return 2 * k < s.pad.size() ? s.pad[2 * k] : 0;
  };
  for (int d = 0; d < sizes.size(); ++d) {
    const size_t k = static_cast<size_t>(sizes.size() - 1 - d);
    if (2 * k < s.pad.size()) sizes[d] += s.pad[2 * k] + s.pad[2 * k + 1];
  }
  Array out(sizes);
  Array::each(sizes, [&](const Shape& at) {
    Shape from = at;
    bool inside = true;
    for (int d = 0; d < sizes.size(); ++d) {
      const int64_t n = x.sizes[d];
      int64_t i = at[d] - before(d);
      if (s.mode == "replicate") i = std::clamp<int64_t>(i, 0, n - 1);
      if (s.mode == "circular") i = (i + n) % n;
      if (s.mode == "reflect") i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
      inside &= i >= 0 && i < n;
      from[d] = i;
    }
    out.at(at) = inside ? x.at(from) : s.value;
  });
  return out;
}

}  // namespace

void pad_cases(Cases& cases) {
  const Sample samples[] = {
      {"one dim", {3, 4}, {1, 2}},
      {"two dims", {2, 3, 4}, {1, 0, 2, 1}, "constant", 1},
      {"all dims", {2, 3}, {0, 1, 1, 1}, "constant", 2},
      {"cut and extended", {3, 5}, {-1, 2, 1, -2}},
      {"only cut", {3, 5}, {-1, -2}},
      {"nothing", {3, 2}, {}},
      {"channels last", {2, 3, 2, 2}, {1, 1, 0, 1}, "constant", 0, true},
      {"empty", {0, 3}, {1, 1, 1, 0}, "constant", 3},
      {"reflect", {2, 3, 4}, {2, 1}, "reflect"},
      {"reflect 2-D", {1, 2, 3, 4}, {1, 3, 2, 0}, "reflect"},
      {"reflect 3-D", {1, 2, 3, 2}, {1, 0, 1, 2, 0, 1}, "reflect"},
      {"replicate", {2, 1, 3}, {4, 1}, "replicate"},
      {"replicate 2-D", {1, 3, 4}, {1, 3, -1, 2}, "replicate"},
      {"circular 2-D", {1, 2, 3, 4}, {1, 4, 3, 0}, "circular"},
  };
  for (const Sample& sample : samples)
    cases.add({.op = sample.mode == "constant" ? "constant_pad" : "pad",
               .name = sample.name,
               .inputs = {{sample.sizes}},
               .run =
                   [=](In x) {
                     const Tensor input = pool::in_layout(x[0], sample.channels_last);
                     if (sample.value != 0)
                       return one(pad(input, sample.pad, "constant", sample.value));
                     return one(pad(input, sample.pad, sample.mode));
                   },
               .reference = [=](Arrays x) { return one(padded(x[0], sample)); },
               .dtypes = all_dtypes()});
  cases.error("pad", "odd", "expected an even number of entries", [] {
    pad(zeros({2, 3}), {1, 2, 3});
  });
  cases.error("pad", "too many", "too many for an input of 1 dims", [] {
    pad(zeros({2}), {1, 2, 3, 1});
  });
  for (const int64_t amount : {int64_t{1} << 62, std::numeric_limits<int64_t>::min()})
    cases.error("pad", concat("by ", amount), "elements are too many", [amount] {
      pad(zeros({2, 2}), {amount, amount});
    });
  cases.error("pad", "mode", "unknown mode 'mirror'", [] { pad(zeros({2, 2}), {1, 1}, "mirror"); });
  cases.error("pad", "reflect", "reflect needs padding smaller than the size", [] {
    pad(zeros({2, 2}), {2, 1}, "reflect");
  });
  cases.error("pad", "circular", "circular needs padding no larger than the size", [] {
    pad(zeros({2, 2}), {3, 1}, "circular");
  });
  cases.error("pad", "dims", "extends the last 1 to 3 dims", [] {
    pad(zeros({1, 2, 3, 4}), {1, 1}, "circular");
  });
  cases.error("pad", "cut", "cannot cut 3 and 0 elements off size 2", [] {
    pad(zeros({2, 2}), {-3, 0});
  });
}

}  // namespace tensora::suite
