#include "tensora/backend/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tensora/base/check.h"
#include "tensora/base/half.h"
#include "tensora/base/thread_pool.h"

namespace tensora::cpu {
namespace {

enum class Layout { rows, columns, padded_rows, padded_columns, strided, reversed };

constexpr Layout kLayouts[] = {Layout::rows,           Layout::columns, Layout::padded_rows,
                               Layout::padded_columns, Layout::strided, Layout::reversed};

/// Memory of a batch of matrices in some layout, with a guard value everywhere else.
template <class T>
struct Matrices {
  int64_t rows;
  int64_t cols;
  std::vector<T> memory;
  MatrixBatch<T> view;

  T& at(int64_t batch, int64_t i, int64_t j) {
    return view.data[batch * view.batch_stride + i * view.row_stride + j * view.col_stride];
  }
};

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
double to_double(T value) {
  return static_cast<double>(value);
}

template <class T>
constexpr bool kWhole = std::is_integral_v<T>;

template <class T>
Matrices<T> make(int64_t batch, int64_t rows, int64_t cols, Layout layout) {
  Matrices<T> x{rows, cols, {}, {}};
  MatrixBatch<T>& view = x.view;
  int64_t size = rows * cols;
  switch (layout) {
    case Layout::rows:
      view = {nullptr, size, cols, 1};
      break;
    case Layout::columns:
      view = {nullptr, size, 1, rows};
      break;
    case Layout::padded_rows:
      size = rows * (cols + 3);
      view = {nullptr, size, cols + 3, 1};
      break;
    case Layout::padded_columns:
      size = cols * (rows + 5);
      view = {nullptr, size, 1, rows + 5};
      break;
    case Layout::strided:
      size = rows * cols * 6;
      view = {nullptr, size, cols * 6, 2};
      break;
    case Layout::reversed:
      view = {nullptr, size, -cols, 1};
      break;
  }
  x.memory.assign(static_cast<size_t>(batch * size + 1), from_double<T>(77));
  view.data = x.memory.data();
  if (layout == Layout::reversed && rows > 0) view.data += (rows - 1) * cols;
  return x;
}

template <class T>
void fill(Matrices<T>& x, int64_t batch, std::mt19937& random) {
  std::uniform_real_distribution<double> real(-1, 1);
  std::uniform_int_distribution<int> whole(kWhole<T> ? -100 : 0, 100);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < x.rows; ++i) {
      for (int64_t j = 0; j < x.cols; ++j) {
        if constexpr (kWhole<T>) {
          x.at(b, i, j) = static_cast<T>(whole(random));
        } else {
          x.at(b, i, j) = from_double<T>(real(random));
        }
      }
    }
  }
}

template <class T>
double tolerance(int64_t k) {
  if constexpr (std::is_same_v<T, Half>) return 2e-3 * std::sqrt(static_cast<double>(k) + 1);
  if constexpr (std::is_same_v<T, BFloat16>) return 1.6e-2 * std::sqrt(static_cast<double>(k) + 1);
  if constexpr (std::is_same_v<T, double>) return 1e-14 * static_cast<double>(k + 1);
  return 3e-7 * static_cast<double>(k + 1);
}

struct Case {
  int64_t batch, m, n, k;
  Layout a = Layout::rows, b = Layout::rows, out = Layout::rows;
  double alpha = 1, beta = 0;
  bool share_a = false, share_b = false;
};

std::string text(const Case& c) {
  return "batch " + std::to_string(c.batch) + " m " + std::to_string(c.m) + " n " +
         std::to_string(c.n) + " k " + std::to_string(c.k) + " layouts " +
         std::to_string(static_cast<int>(c.a)) + std::to_string(static_cast<int>(c.b)) +
         std::to_string(static_cast<int>(c.out)) + " alpha " + std::to_string(c.alpha) + " beta " +
         std::to_string(c.beta) + (c.share_a ? " shared a" : "") + (c.share_b ? " shared b" : "");
}

/// Compares with the definition, in double for floats and in wrapping 64 bits for integers, and
/// looks for writes beside the elements of out.
template <class T>
void expect_right(const Case& c) {
  std::mt19937 random(static_cast<unsigned>(c.m * 31 + c.n * 7 + c.k));
  Matrices<T> a = make<T>(c.share_a ? 1 : c.batch, c.m, c.k, c.a);
  Matrices<T> b = make<T>(c.share_b ? 1 : c.batch, c.k, c.n, c.b);
  Matrices<T> out = make<T>(c.batch, c.m, c.n, c.out);
  if (c.share_a) a.view.batch_stride = 0;
  if (c.share_b) b.view.batch_stride = 0;
  fill(a, c.share_a ? 1 : c.batch, random);
  fill(b, c.share_b ? 1 : c.batch, random);
  fill(out, c.batch, random);
  Matrices<T> before = make<T>(c.batch, c.m, c.n, c.out);
  for (int64_t q = 0; q < c.batch; ++q) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        before.at(q, i, j) = out.at(q, i, j);
        if (c.beta == 0 && !kWhole<T>) {
          out.at(q, i, j) = from_double<T>(std::numeric_limits<double>::quiet_NaN());
        }
      }
    }
  }
  gemm<T>({.batch = c.batch,
           .m = c.m,
           .n = c.n,
           .k = c.k,
           .a = {a.view.data, a.view.batch_stride, a.view.row_stride, a.view.col_stride},
           .b = {b.view.data, b.view.batch_stride, b.view.row_stride, b.view.col_stride},
           .out = out.view,
           .alpha = c.alpha,
           .beta = c.beta});
  for (int64_t q = 0; q < c.batch; ++q) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        if constexpr (kWhole<T>) {
          uint64_t sum = 0;
          for (int64_t d = 0; d < c.k; ++d) {
            sum += static_cast<uint64_t>(a.at(q, i, d)) * static_cast<uint64_t>(b.at(q, d, j));
          }
          sum = sum * static_cast<uint64_t>(static_cast<int64_t>(c.alpha)) +
                static_cast<uint64_t>(before.at(q, i, j)) *
                    static_cast<uint64_t>(static_cast<int64_t>(c.beta));
          ASSERT_EQ(out.at(q, i, j), static_cast<T>(sum)) << text(c) << " at " << i << " " << j;
        } else {
          double sum = 0;
          for (int64_t d = 0; d < c.k; ++d) {
            sum += to_double(a.at(q, i, d)) * to_double(b.at(q, d, j));
          }
          sum = c.alpha * sum;
          if (c.beta != 0) sum += c.beta * to_double(before.at(q, i, j));
          ASSERT_NEAR(to_double(out.at(q, i, j)), sum, tolerance<T>(c.k) * (1 + std::abs(c.alpha)))
              << text(c) << " at " << q << " " << i << " " << j;
        }
        out.at(q, i, j) = from_double<T>(77);
      }
    }
  }
  for (const T& value : out.memory) {
    ASSERT_EQ(to_double(value), 77) << text(c) << ": wrote outside";
  }
}

template <class T>
class GemmTest : public ::testing::Test {};
using Types =
    ::testing::Types<float, double, Half, BFloat16, int64_t, int32_t, int16_t, int8_t, uint8_t>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, Sizes) {
  for (const int64_t m : {1, 2, 5, 13, 16, 17, 33, 70}) {
    for (const int64_t n : {1, 3, 8, 16, 17, 31, 65, 100}) {
      for (const int64_t k : {1, 2, 7, 33, 130}) expect_right<TypeParam>({1, m, n, k});
    }
  }
}

TYPED_TEST(GemmTest, Layouts) {
  for (const Layout a : kLayouts) {
    for (const Layout b : kLayouts) {
      for (const Layout out : kLayouts) {
        expect_right<TypeParam>({1, 37, 53, 41, a, b, out, 2, 3});
        expect_right<TypeParam>({1, 3, 53, 41, a, b, out});
        expect_right<TypeParam>({1, 53, 3, 41, a, b, out, -1, 1});
      }
    }
  }
}

TYPED_TEST(GemmTest, LargerThanTheBlocks) {
  for (const Layout a : {Layout::rows, Layout::columns}) {
    for (const Layout b : {Layout::rows, Layout::columns}) {
      expect_right<TypeParam>({1, 211, 301, 417, a, b});
      expect_right<TypeParam>({1, 20, 1000, 500, a, b, Layout::rows, 1, 1});
      expect_right<TypeParam>({1, 45, 40, 9001, a, b, Layout::columns, 2, -1});
      expect_right<TypeParam>({1, 4, 1111, 700, a, b});
      expect_right<TypeParam>({1, 70, 1111, 385, a, b, Layout::rows, -2, 3});
      expect_right<TypeParam>({1, 2100, 70, 40, a, b, Layout::rows, 1, 1});
    }
  }
}

TYPED_TEST(GemmTest, AlphaAndBeta) {
  for (const double alpha : {0., 1., -2.}) {
    for (const double beta : {0., 1., 3.}) {
      for (const int64_t m : {2, 40}) {
        Case c{2, m, 50, 30};
        c.alpha = alpha;
        c.beta = beta;
        expect_right<TypeParam>(c);
        c.k = 0;
        expect_right<TypeParam>(c);
      }
    }
  }
}

TYPED_TEST(GemmTest, Batches) {
  for (const bool share_a : {false, true}) {
    for (const bool share_b : {false, true}) {
      for (const Layout layout : {Layout::rows, Layout::columns, Layout::padded_rows}) {
        Case c{7, 18, 35, 22, layout, layout, layout};
        c.share_a = share_a;
        c.share_b = share_b;
        expect_right<TypeParam>(c);
        c.m = 1;
        expect_right<TypeParam>(c);
      }
    }
  }
}

TYPED_TEST(GemmTest, Empty) {
  expect_right<TypeParam>({0, 3, 4, 5});
  expect_right<TypeParam>({2, 0, 4, 5});
  expect_right<TypeParam>({2, 3, 0, 5});
  expect_right<TypeParam>({2, 3, 4, 0, Layout::rows, Layout::rows, Layout::strided, 1, 2});
}

TEST(Gemm, LargeBatchesAndThreads) {
  const int before = get_num_threads();
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (const Layout b : {Layout::rows, Layout::columns, Layout::strided}) {
      expect_right<float>({24, 64, 64, 48, Layout::rows, b});
      expect_right<float>({3, 130, 140, 120, Layout::columns, b});
      expect_right<float>({1, 250, 200, 200, Layout::rows, b});
      expect_right<float>({1, 1, 2000, 500, Layout::rows, b});
      expect_right<float>({1, 1000, 8, 300, Layout::rows, b});
      expect_right<float>({1, 40, 40, 9000, Layout::columns, b});
      expect_right<Half>({1, 2, 1000, 400, Layout::rows, b});
    }
  }
  set_num_threads(before);
}

TEST(Gemm, NansAndInfinitiesOfOperandsArrive) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t m : {1, 30}) {
    std::vector<float> a(static_cast<size_t>(m * 30), 0.f);
    std::vector<float> b(30 * 30, 1.f);
    std::vector<float> out(static_cast<size_t>(m * 30), 5.f);
    b[0] = kNan;
    gemm<float>({.m = m,
                 .n = 30,
                 .k = 30,
                 .a = {a.data(), 0, 30, 1},
                 .b = {b.data(), 0, 30, 1},
                 .out = {out.data(), 0, 30, 1}});
    EXPECT_TRUE(std::isnan(out[0])) << "0 * NaN";
    EXPECT_EQ(out[1], 0.f);
  }
}

TEST(Gemm, HalfIsRoundedOnce) {
  // In half arithmetic 2048 + 1 == 2048; sums in float keep the ones.
  const int64_t k = 3000;
  std::vector<Half> ones(static_cast<size_t>(k), Half(1.f));
  Half out(0.f);
  gemm<Half>({.m = 1,
              .n = 1,
              .k = k,
              .a = {ones.data(), 0, k, 1},
              .b = {ones.data(), 0, 1, 1},
              .out = {&out, 0, 1, 1}});
  EXPECT_EQ(static_cast<float>(out), 3000.f);
}

TEST(Gemm, RepeatsBitForBit) {
  const int64_t n = 300;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> real(-1, 1);
  std::vector<float> a(static_cast<size_t>(n * n)), b(a.size()), first(a.size()), again(a.size());
  for (float& x : a) x = real(random);
  for (float& x : b) x = real(random);
  const auto run = [&](std::vector<float>& out) {
    gemm<float>({.m = n,
                 .n = n,
                 .k = n,
                 .a = {a.data(), 0, n, 1},
                 .b = {b.data(), 0, 1, n},
                 .out = {out.data(), 0, n, 1}});
  };
  run(first);
  for (int i = 0; i < 10; ++i) {
    run(again);
    ASSERT_EQ(first, again);
  }
}

TEST(Gemm, MistakesThrow) {
  float x = 0;
  int32_t y = 0;
  EXPECT_THROW(gemm<float>({.m = -1, .n = 1, .k = 1, .a = {&x}, .b = {&x}, .out = {&x}}), Error);
  EXPECT_THROW(
      gemm<int32_t>({.m = 1, .n = 1, .k = 1, .a = {&y}, .b = {&y}, .out = {&y}, .alpha = 0.5}),
      Error);
}

}  // namespace
}  // namespace tensora::cpu
