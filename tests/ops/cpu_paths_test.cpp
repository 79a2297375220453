// The CPU's kernels take other paths beyond some sizes: results are written past the cache, lines
// are computed several at a time, keys are packed. Each is held against a plain loop.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/helpers.h"

namespace tensora::testing {
namespace {

// Every bit pattern of float's upper half, with lower halves that round down, up and to even.
TEST(CpuPathsTest, LargeCastsToBfloat16RoundAsSingleNumbers) {
  const int64_t n = (int64_t{9} << 20) + 5;
  const Tensor x = empty({n});
  float* const from = x.data_ptr<float>();
  constexpr uint32_t kLow[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(i) << 16 | kLow[i % 6];
    std::memcpy(from + i, &bits, 4);
  }
  const Tensor narrow = x.to(kBFloat16), wide = narrow.to(kFloat32);
  const auto* const bits = static_cast<const uint16_t*>(narrow.data_ptr());
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(bits[i], BFloat16(from[i]).bits) << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(wide.data_ptr<float>()[i]), uint32_t{bits[i]} << 16) << i;
  }
}

// Formulas of the CPU's own: their bits do not depend on the place in a vector, and what is special
// stays so.
TEST(CpuPathsTest, OwnFormulasOfSpecialNumbersAndPlaces) {
  const float infinity = INFINITY;
  const Tensor special = tensor({0.0f, -0.0f, infinity, -infinity, NAN, 1e-40f, 1e30f, -1e30f});
  const auto at = [](const Tensor& x, int64_t i) { return x.data_ptr<float>()[i]; };
  for (const auto& function :
       {+[](const Tensor& x) { return tanh(x); }, +[](const Tensor& x) { return erf(x); }}) {
    const Tensor y = function(special);
    EXPECT_TRUE(at(y, 0) == 0 && !std::signbit(at(y, 0)));
    EXPECT_TRUE(at(y, 1) == 0 && std::signbit(at(y, 1)));
    for (const int64_t i : {2, 6}) EXPECT_EQ(at(y, i), 1);
    for (const int64_t i : {3, 7}) EXPECT_EQ(at(y, i), -1);
    EXPECT_TRUE(std::isnan(at(y, 4)));
    EXPECT_NEAR(at(y, 5), 1e-40, 2e-41);
  }
  const Tensor y = gelu(special);
  EXPECT_TRUE(at(y, 0) == 0 && at(y, 1) == 0 && std::signbit(at(y, 1)));
  EXPECT_EQ(at(y, 2), infinity);
  EXPECT_TRUE(std::isnan(at(y, 3)) && std::isnan(at(y, 4)));  // -inf * 0, as in PyTorch
  EXPECT_EQ(at(y, 6), 1e30f);
  EXPECT_EQ(at(y, 7), 0);

  const Tensor powers = exp(tensor(
      {0.0f, infinity, -infinity, NAN, 88.72f, 88.73f, 1e30f, -1e30f, -88.0f, -103.0f, -104.0f}));
  EXPECT_EQ(at(powers, 0), 1);
  for (const int64_t i : {1, 5, 6}) EXPECT_EQ(at(powers, i), infinity);
  for (const int64_t i : {2, 7, 10}) EXPECT_EQ(at(powers, i), 0);
  EXPECT_TRUE(std::isnan(at(powers, 3)));
  EXPECT_NEAR(at(powers, 4) / std::exp(88.72f), 1, 1e-6);
  EXPECT_NEAR(at(powers, 8), std::exp(-88.0), 3e-45);  // not normal
  EXPECT_NEAR(at(powers, 9), std::exp(-103.0), 3e-45);

  const Tensor x = (rand({1037}) - 0.5) * 12;
  for (const auto& function :
       {+[](const Tensor& t) { return tanh(t); }, +[](const Tensor& t) { return erf(t); },
        +[](const Tensor& t) { return gelu(t); }, +[](const Tensor& t) { return exp(t); }})
    for (const int64_t start : {1, 5, 1019}) {
      const Tensor part = function(narrow(x, 0, start, 18).clone());
      EXPECT_TRUE(equal(part, narrow(function(x), 0, start, 18))) << start;
    }
}

// bfloat16 runs by blocks, float by tiles: the same numbers, rounded in the end.
TEST(CpuPathsTest, BlocksOfBfloat16GiveWhatFloatsGive) {
  using Function = Tensor (*)(const Tensor&, const Tensor&);
  const Function functions[] = {
      +[](const Tensor& a, const Tensor& b) { return a + b; },
      +[](const Tensor& a, const Tensor& b) { return a * b + 2.5; },
      +[](const Tensor& a, const Tensor&) { return gelu(a); },
      +[](const Tensor& a, const Tensor& b) { return maximum(exp(a), b); },
  };
  const auto expect_same = [&](const Tensor& a, const Tensor& b) {
    for (const Function function : functions) {
      // Each step is rounded, as it is in bfloat16.
      const Tensor got = function(a, b);
      const Tensor wide_a = a.to(kFloat32), wide_b = b.to(kFloat32);
      Tensor wide;
      if (function == functions[1])
        wide = (wide_a * wide_b).to(kBFloat16).to(kFloat32) + 2.5;
      else if (function == functions[3])
        wide = maximum(exp(wide_a).to(kBFloat16).to(kFloat32), wide_b);
      else
        wide = function(wide_a, wide_b);
      const Tensor expected = wide.to(kBFloat16);
      ASSERT_EQ(got.sizes(), expected.sizes());
      ASSERT_EQ(std::memcmp(got.data_ptr(), expected.data_ptr(), got.nbytes()), 0)
          << a.sizes() << b.sizes();
    }
  };
  const auto random = [](const Shape& sizes) { return ((rand(sizes) - 0.5) * 20).to(kBFloat16); };
  for (const int64_t n : {1, 63, 64, 65, 1037, 40'000}) expect_same(random({n}), random({n}));
  const Tensor x = random({37, 517});
  for (const Shape& sizes : {Shape{517}, Shape{37, 1}, Shape{1}}) expect_same(x, random(sizes));
  expect_same(random({3, 5, 300}), random({5, 1}));
  expect_same(narrow(x, 1, 3, 300).clone(), narrow(x, 1, 7, 300));
  // Written past the cache, with a rest and with rows.
  expect_same(random({(int64_t{9} << 20) + 37}), random({1}));
  expect_same(random({3000, 3200}), random({3000, 1}));
  Tensor y = x.clone();
  y.add_(x);
  EXPECT_TRUE(equal(y, x + x));
}

TEST(CpuPathsTest, LargeTensorsAreJoinedAndRolled) {
  const int64_t rows = 1500, columns = 3001, shift = 17;
  for (const DType dtype : {kInt32, kInt64}) {
    const Tensor x = arange(rows * columns, {.dtype = dtype}).reshape({rows, columns});
    const Tensor rolled = roll(x, {shift}, {1}).to(kInt64);
    const Tensor joined = cat({slice(x, 1, 5, columns), x}, 1).to(kInt64);
    const Tensor below = cat({x, slice(x, 0, 3, rows)}, 0).to(kInt64);
    const auto *const r = rolled.data_ptr<int64_t>(), *const j = joined.data_ptr<int64_t>(),
                      *const b = below.data_ptr<int64_t>();
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t value = row * columns + c;
        ASSERT_EQ(r[row * columns + (c + shift) % columns], value);
        ASSERT_EQ(j[row * (2 * columns - 5) + columns - 5 + c], value);
        if (c >= 5) {
          ASSERT_EQ(j[row * (2 * columns - 5) + c - 5], value);
        }
        ASSERT_EQ(b[value], value);
        if (row >= 3) {
          ASSERT_EQ(b[(rows + row - 3) * columns + c], value);
        }
      }
  }
}

// Together and one by one, and a result that is written past the cache.
TEST(CpuPathsTest, RunningSumsOfSeveralLines) {
  for (const auto& [lines, length] : {std::pair<int64_t, int64_t>{19, 1301}, {24, 200'000}}) {
    const Tensor x = rand({lines, length}) - 0.5, sums = cumsum(x, 1);
    const Tensor back = flip(cumsum(flip(x, {1}), 1), {1});
    for (int64_t line = 0; line < lines; ++line) {
      double sum = 0, sum_back = 0;
      for (int64_t i = line * length; i < (line + 1) * length; ++i) {
        const int64_t mirrored = (2 * line + 1) * length - 1 - i;
        sum += x.data_ptr<float>()[i];
        sum_back += x.data_ptr<float>()[mirrored];
        ASSERT_EQ(sums.data_ptr<float>()[i], static_cast<float>(sum));
        ASSERT_EQ(back.data_ptr<float>()[mirrored], static_cast<float>(sum_back));
      }
    }
  }
}

// Elements of every width, in sizes around those of a block and in one that is written past the
// cache, into rows that are aligned for that or not.
TEST(CpuPathsTest, TransposedCopies) {
  struct Sample {
    int64_t rows, cols, gap;
  };
  for (const DType dtype : {kUInt8, kInt16, kInt32, kInt64, kComplex128})
    for (const auto& [rows, cols, gap] :
         {Sample{8, 8, 0}, Sample{15, 17, 3}, Sample{33, 64, 0}, Sample{67, 131, 1},
          Sample{3001, 3072, 0}, Sample{3072, 3001, 0}}) {
      const Tensor whole = arange(cols * (rows + gap)).remainder(251).to(dtype);
      const Tensor x = narrow(whole.reshape({cols, rows + gap}), 1, 0, rows);
      const Tensor copy = x.t().contiguous().to(kFloat64);
      const double* const at = copy.data_ptr<double>();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
          ASSERT_EQ(at[r * cols + c], (c * (rows + gap) + r) % 251)
              << dtype << ' ' << rows << ' ' << r << ' ' << c;
    }
}

// Of equal elements those that come first, also where most are equal.
TEST(CpuPathsTest, TopkOfTiesAndNan) {
  const int64_t n = 20000, k = 9;
  for (const double levels : {1., 3., 5000.}) {
    for (const bool with_nan : {false, true}) {
      Tensor x = floor(rand({n}) * levels).to(kBFloat16);
      if (with_nan) fill_(narrow(x, 0, 12345, 4), NAN);
      const Tensor wide = x.to(kFloat32);
      const float* const at = wide.data_ptr<float>();
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return (std::isnan(at[a]) && !std::isnan(at[b])) || at[a] > at[b];
      });
      const Tensor indices = std::get<1>(topk(x, k));
      for (int64_t i = 0; i < k; ++i)
        ASSERT_EQ(indices.data_ptr<int64_t>()[i], order[static_cast<size_t>(i)]) << levels;
    }
  }
}

TEST(CpuPathsTest, SearchesInStep) {
  const int64_t n = 1000, m = 203;
  const Tensor sequence = std::get<0>(sort(floor(rand({n}) * 300), 0)),
               values = floor(rand({m}) * 320);
  const float* const begin = sequence.data_ptr<float>();
  const Tensor left = searchsorted(sequence, values);
  const Tensor right = searchsorted(sequence, values, false, true);
  for (int64_t i = 0; i < m; ++i) {
    const float value = values.data_ptr<float>()[i];
    ASSERT_EQ(left.data_ptr<int64_t>()[i], std::lower_bound(begin, begin + n, value) - begin);
    ASSERT_EQ(right.data_ptr<int64_t>()[i], std::upper_bound(begin, begin + n, value) - begin);
  }
}

TEST(CpuPathsTest, LongLinesOfIntegersNearAndFar) {
  const int64_t n = 200'000;
  for (const double spread : {0., 1000., 1e9, 1e15}) {
    const Tensor x = ((rand({n}, {.dtype = kFloat64}) - 0.5) * spread).to(kInt64);
    const int64_t* const at = x.data_ptr<int64_t>();
    for (const bool descending : {false, true}) {
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return descending ? at[a] > at[b] : at[a] < at[b];
      });
      const auto [values, indices] = sort(x, 0, descending);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(indices.data_ptr<int64_t>()[i], order[static_cast<size_t>(i)]);
        ASSERT_EQ(values.data_ptr<int64_t>()[i], at[order[static_cast<size_t>(i)]]);
      }
    }
  }
}

TEST(CpuPathsTest, GroupsNormalisedAFewAtATime) {
  const Tensor x = rand({9, 24, 31, 33}) * 3 + 1, weight = rand({24}), bias = rand({24});
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
    const Tensor given = x.to(dtype);
    const Tensor y = group_norm(given, 6, weight.to(dtype), bias.to(dtype), 1e-5);
    const Tensor rows = given.to(kFloat64).reshape({9 * 6, 4 * 31 * 33});
    const Tensor mean = rows.mean({1}, true), distance = rows - mean;
    const Tensor scaled = distance / sqrt((distance * distance).mean({1}, true) + 1e-5);
    const Tensor expected = scaled.reshape({9, 24, 31 * 33}) * weight.to(dtype).reshape({24, 1}) +
                            bias.to(dtype).reshape({24, 1});
    const double error =
        (y.to(kFloat64).reshape({9, 24, 31 * 33}) - expected).abs().amax().item<double>();
    EXPECT_LT(error, dtype == kBFloat16 ? 2e-2 : dtype == kFloat32 ? 1e-5 : 1e-12) << dtype;
  }
}

TEST(CpuPathsTest, NonzeroOfMasksOfManyDims) {
  const Tensor mask = rand({5, 3, 41, 77}) > 0.5, found = nonzero(mask);
  const bool* const at = mask.data_ptr<bool>();
  const int64_t* to = found.data_ptr<int64_t>();
  for (int64_t i = 0; i < mask.numel(); ++i) {
    if (!at[i]) continue;
    ASSERT_EQ(((to[0] * 3 + to[1]) * 41 + to[2]) * 77 + to[3], i);
    to += 4;
  }
  ASSERT_EQ(to - found.data_ptr<int64_t>(), found.numel());
}

}  // namespace
}  // namespace tensora::testing
