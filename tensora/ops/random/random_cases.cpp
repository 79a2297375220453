#include <cmath>
#include <numbers>

#include "tests/suite/cases.h"

// The references compute each value a second time, from a Philox written independently of the
// library's and with the C library's functions in double. See Note [Lanes] in core/philox.h for
// the order in which a block of counters is dealt out.

namespace tensora::suite {
namespace {

constexpr uint64_t kSeed = 0x1234'5678'9abc'def0;

struct Words {
  uint32_t word[4];
};

Words reference_philox(uint64_t counter) {
  uint32_t c[4] = {uint32_t(counter), uint32_t(counter >> 32), 0, 0};
  uint32_t key[2] = {uint32_t(kSeed), uint32_t(kSeed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t left = uint64_t{c[0]} * 0xD2511F53u, right = uint64_t{c[2]} * 0xCD9E8D57u;
    const uint32_t next[4] = {uint32_t(right >> 32) ^ c[1] ^ key[0], uint32_t(right),
                              uint32_t(left >> 32) ^ c[3] ^ key[1], uint32_t(left)};
    std::copy(next, next + 4, c);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

/// Which counter and which of its values element i is.
struct Place {
  Words words;
  int value;
};
Place place_of(int64_t i, int per_counter) {
  const int64_t block = 32 * per_counter;
  return {reference_philox(uint64_t(i / block * 32 + i % 32)), int(i % block / 32)};
}

int values_per_counter() { return dtype() == kFloat64 ? 2 : 4; }

/// Uniform in [0, 1), with the bits of the dtype under test.
double unit(int64_t i) {
  const Place p = place_of(i, values_per_counter());
  if (dtype() == kFloat64)
    return (double(p.words.word[2 * p.value] >> 5) * 67108864. +
            double(p.words.word[2 * p.value + 1] >> 6)) /
           9007199254740992.;
  const int bits = dtype() == kFloat16 ? 11 : dtype() == kBFloat16 ? 8 : 24;
  return double(p.words.word[p.value] >> (32 - bits)) / std::pow(2., bits);
}

/// In (0, 1]: what logarithms are taken of.
double above_zero(uint32_t word) { return (double(float(word >> 1)) + 0.5) / 2147483648.; }
double above_zero(uint32_t high, uint32_t low) {
  return (double(high >> 1) * 2147483648. + double(low >> 1) + 0.5) / std::pow(2., 62);
}

double standard_normal(int64_t i) {
  const Place p = place_of(i, values_per_counter());
  const uint32_t* w = p.words.word;
  double u = 0, turns = 0;  // turns: quarter turns
  if (dtype() == kFloat64) {
    u = above_zero(w[0], w[1]);
    turns = double(w[2] >> 30) + double(int32_t(w[2] << 2)) / std::pow(2., 32) +
            double(w[3] >> 1) / std::pow(2., 63);
  } else {
    const uint32_t* pair = w + p.value / 2 * 2;
    u = above_zero(pair[0]);
    turns = double(pair[1] >> 30) + double(int32_t(pair[1] << 2)) / std::pow(2., 32);
  }
  const double radius = std::sqrt(-2 * std::log(u)), angle = turns * std::numbers::pi / 2;
  return p.value % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

double exponential(int64_t i) {
  const Place p = place_of(i, values_per_counter());
  const uint32_t* w = p.words.word;
  if (dtype() == kFloat64)
    return -std::log(
        std::min(above_zero(w[2 * p.value], w[2 * p.value + 1]), 1 - std::pow(2., -53)));
  return -std::log(std::min(above_zero(w[p.value]), 1 - std::pow(2., -24)));
}

double integer(int64_t i, double low, double range) {
  const Place p = place_of(i, 2);
  const uint32_t* w = p.words.word + 2 * p.value;
  const auto wide =
      (static_cast<unsigned __int128>(w[0]) << 32 | w[1]) * static_cast<unsigned __int128>(range);
  return low + double(uint64_t(wide >> 64));
}

/// A case of an in-place random op on a clone of the input, and on the input itself.
void add(Cases& cases, std::string op, std::string name, const Shape& sizes,
         std::vector<DType> dtypes, std::function<void(const Tensor&)> fill,
         std::function<double(int64_t)> value) {
  cases.add({.op = std::move(op),
             .name = concat(name, " ", sizes),
             .inputs = {{sizes}},
             .run =
                 [fill](In x) {
                   Tensor result = clone(x[0]);
                   fill(result);
                   return one(result);
                 },
             .reference =
                 [value](Arrays x) {
                   Array result(x[0].sizes);
                   for (int64_t i = 0; i < result.numel(); ++i) result[i] = value(i);
                   return one(result);
                 },
             .dtypes = std::move(dtypes),
             .inplace = [fill](In x) { fill(x[0]); },
             .tolerance = 4,
             .seed = kSeed});
}

void fill_random_cases(Cases& cases, const Shape& sizes) {
  add(
      cases, "uniform_", "from 0 to 1", sizes, floating_dtypes(),
      [](const Tensor& x) { uniform_(x); }, [](int64_t i) { return unit(i); });
  add(
      cases, "uniform_", "from -2 to 6", sizes, floating_dtypes(),
      [](const Tensor& x) { uniform_(x, -2, 6); }, [](int64_t i) { return unit(i) * 8 - 2; });
  add(
      cases, "normal_", "standard", sizes, floating_dtypes(), [](const Tensor& x) { normal_(x); },
      [](int64_t i) { return standard_normal(i); });
  add(
      cases, "normal_", "mean 0.5 std 2", sizes, floating_dtypes(),
      [](const Tensor& x) { normal_(x, 0.5, 2); },
      [](int64_t i) { return standard_normal(i) * 2 + 0.5; });
  add(
      cases, "exponential_", "lambd 0.5", sizes, floating_dtypes(),
      [](const Tensor& x) { exponential_(x, 0.5); }, [](int64_t i) { return exponential(i) * 2; });
  for (double p : {0., 0.25, 1.})
    add(
        cases, "bernoulli_", concat("p ", p), sizes, all_dtypes(),
        [p](const Tensor& x) { bernoulli_(x, p); },
        [p](int64_t i) {
          const Place place = place_of(i, 4);
          return double(place.words.word[place.value] < p * 4294967296.);
        });
  add(
      cases, "random_", "0 to 2", sizes, all_dtypes(), [](const Tensor& x) { random_(x, 0, 2); },
      [](int64_t i) { return integer(i, 0, 2); });
  add(
      cases, "random_", "-100 to 27", sizes, {kInt8, kInt16, kInt32, kInt64, kFloat32},
      [](const Tensor& x) { random_(x, -100, 27); },
      [](int64_t i) { return integer(i, -100, 127); });
}

void big_cases(Cases& cases) {
  const auto add_big = [&](std::string op, std::vector<DType> dtypes, void (*fill)(const Tensor&)) {
    cases.add({.op = std::move(op),
               .name = "large",
               .inputs = {{{1 << 22}}},
               .run =
                   [fill](In x) {
                     const no_grad silent;
                     const Tensor y = empty_like(x[0]);
                     fill(y);
                     return one(y);
                   },
               .dtypes = std::move(dtypes),
               .big = true});
  };
  add_big("uniform_", {kFloat32, kFloat64}, [](const Tensor& x) { uniform_(x); });
  add_big("normal_", {kBFloat16, kFloat32, kFloat64}, [](const Tensor& x) { normal_(x); });
  add_big("bernoulli_", {kFloat32}, [](const Tensor& x) { bernoulli_(x, 0.1); });
  add_big("random_", {kInt64}, [](const Tensor& x) { random_(x, 0, 1000); });
}

void bernoulli_tensor_cases(Cases& cases) {
  for (const Shape& sizes : {Shape{}, Shape{7}, Shape{3, 50}, Shape{0, 4}})
    cases.add({.op = "bernoulli",
               .name = concat("probabilities ", sizes),
               .inputs = {{.sizes = sizes, .low = 0, .high = 1}},
               .run = [](In x) { return one(bernoulli(x[0])); },
               .reference =
                   [](Arrays x) {
                     // Half types are compared with 24 random bits too.
                     Array result(x[0].sizes);
                     for (int64_t i = 0; i < result.numel(); ++i) {
                       const Place p = place_of(i, values_per_counter());
                       const double u = dtype() == kFloat64
                                            ? unit(i)
                                            : double(p.words.word[p.value] >> 8) / 16777216.;
                       result[i] = u < x[0][i];
                     }
                     return one(result);
                   },
               .opt_out = {{Mode::grad, "a step function"}},
               .seed = kSeed});
  cases.error("bernoulli", "a probability above 1", "between 0 and 1",
              [] { bernoulli(full({3}, 1.5)); });
  cases.error("bernoulli", "a NaN", "between 0 and 1", [] { bernoulli(full({3}, NAN)); });
  cases.error("bernoulli", "integers", "floating-point",
              [] { bernoulli(zeros({3}, {.dtype = kInt64})); });
  cases.error("bernoulli_", "shapes that do not fit", "cannot be broadcast",
              [] { bernoulli_(zeros({2}), full({3}, 0.5)); });
}

void mistakes(Cases& cases) {
  cases.error("uniform_", "from above to", "from <= to", [] { uniform_(zeros({2}), 2, 1); });
  cases.error("uniform_", "an infinite range", "too large",
              [] { uniform_(zeros({2}), 0, INFINITY); });
  cases.error("uniform_", "integers", "floating-point",
              [] { uniform_(zeros({2}, {.dtype = kInt32})); });
  cases.error("normal_", "negative std", "std >= 0", [] { normal_(zeros({2}), 0, -1); });
  cases.error("normal_", "integers", "floating-point",
              [] { normal_(zeros({2}, {.dtype = kInt64})); });
  cases.error("exponential_", "lambd 0", "lambd > 0", [] { exponential_(zeros({2}), 0); });
  cases.error("bernoulli_", "p above 1", "between 0 and 1", [] { bernoulli_(zeros({2}), 1.1); });
  cases.error("bernoulli_", "p NaN", "between 0 and 1", [] { bernoulli_(zeros({2}), NAN); });
  cases.error("randint", "an empty range", "low < high", [] { randint(5, 5, {2}); });
  cases.error("randint", "beyond uint8", "out of the range of uint8",
              [] { randint(0, 257, {2}, {.dtype = kUInt8}); });
  cases.error("randint", "beyond what float16 counts", "out of the range of float16",
              [] { randint(0, 5000, {2}, {.dtype = kFloat16}); });
  cases.error("rand", "integers", "floating-point", [] { rand({2}, {.dtype = kInt64}); });
  cases.error("rand", "a negative size", "negative", [] { rand({-1}); });
  cases.error("uniform_", "a leaf that requires grad", "leaf",
              [] { uniform_(zeros({2}, {.requires_grad = true})); });
  cases.error("uniform_", "an expanded tensor", "share one memory location",
              [] { uniform_(as_strided(zeros({1}), {3}, {0})); });
  cases.error("randperm", "a negative n", "must not be negative", [] { randperm(-1); });
  cases.error("randperm", "beyond uint8", "cannot hold", [] { randperm(257, {.dtype = kUInt8}); });
  cases.error("multinomial", "three dims", "1 or 2 dims", [] { multinomial(ones({2, 2, 2}), 1); });
  cases.error("multinomial", "integers", "floating-point",
              [] { multinomial(ones({2}, {.dtype = kInt64}), 1); });
  cases.error("multinomial", "too many", "without replacement", [] { multinomial(ones({3}), 4); });
  cases.error("multinomial", "no samples", "num_samples > 0", [] { multinomial(ones({3}), 0); });
  cases.error("multinomial", "a negative weight", "negative", [] {
    multinomial(tensor({1., -1.}), 1);
  });
  cases.error("multinomial", "no weight", "sum to zero", [] { multinomial(zeros({3}), 1, true); });
  cases.error("multinomial", "fewer weights than samples", "fewer categories", [] {
    multinomial(tensor({1., 0., 1.}), 3);
  });
}

void sample_cases(Cases& cases) {
  for (int64_t n : {0, 1, 7, 300, 5000})
    cases.add({.op = "randperm",
               .name = concat(n),
               .run = [n](In) { return one(randperm(n, {.dtype = dtype(), .device = device()})); },
               .reference =
                   [n](Arrays) {
                     std::vector<std::pair<uint64_t, int64_t>> keys;
                     int index_bits = 0;
                     while ((int64_t{1} << index_bits) < n) ++index_bits;
                     for (int64_t i = 0; i < n; ++i) {
                       const Place p = place_of(i, 2);
                       const uint32_t* w = p.words.word + 2 * p.value;
                       keys.emplace_back((uint64_t{w[0]} << 32 | w[1]) >> index_bits, i);
                     }
                     std::sort(keys.begin(), keys.end());
                     Array result({n});
                     for (int64_t i = 0; i < n; ++i) result[i] = double(keys[size_t(i)].second);
                     return one(result);
                   },
               .dtypes = {kInt16, kInt32, kInt64, kFloat32, kFloat64},
               .opt_out = {{Mode::grad, "has no inputs"},
                           {Mode::view, "has no inputs"},
                           {Mode::inplace, "has no inputs"}},
               .seed = kSeed});
  // One category holds all the weight, or all categories are drawn: the result is known.
  cases.add({.op = "multinomial",
             .name = "certain categories",
             .inputs = {{.sizes = {3, 4}, .values = {0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0.5}}},
             .run = [](In x) { return one(multinomial(x[0], 5, true)); },
             .reference =
                 [](Arrays) {
                   Array result({3, 5});
                   for (int64_t i = 0; i < 15; ++i) result[i] = i < 5 ? 2 : i < 10 ? 0 : 3;
                   return one(result);
                 },
             .output_dtype = [](DType) { return kInt64; },
             .opt_out = {{Mode::grad, "not differentiable"},
                         {Mode::view, "expanded weights are other weights"}}});
}

}  // namespace

void random_cases(Cases& cases) {
  for (const Shape& sizes :
       {Shape{}, Shape{1}, Shape{5, 3}, Shape{0, 3}, Shape{2, 3, 41}, Shape{130}, Shape{3, 700}})
    fill_random_cases(cases, sizes);
  big_cases(cases);
  bernoulli_tensor_cases(cases);
  sample_cases(cases);
  mistakes(cases);
}

}  // namespace tensora::suite
