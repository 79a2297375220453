// Kernels that run by blocks: loops, products, bounds, atomics, random numbers, tunables.
#include <random>

#include "tensora/core/determinism.h"
#include "tensora/jit/kernel.h"
#include "tensora/ops/random/random.h"
#include "tests/helpers.h"

namespace tensora::test {
namespace {

using jit::all;
using jit::Array;
using jit::block;
using jit::from;
using jit::Index;
using jit::op;
using jit::program;
using jit::Tile;
using ::tensora::testing::error_of;

const auto matmul_blocks = jit::kernel("matmul_blocks", [](Array a, Array b, Array c) {
  const int64_t rows = 32, columns = 48, depth = 16;
  const Index i = program(ceil_div(c.size(0), rows)), j = program(ceil_div(c.size(1), columns));
  const Tile sum = Tile::zeros(rows, columns);
  jit::loop(0, a.size(1), depth, [&](Index k) {
    sum += dot(load(a(block(i, rows), from(k, depth))), load(b(from(k, depth), block(j, columns))));
  });
  store(c(block(i, rows), block(j, columns)), sum);
});

double largest_difference(const Tensor& actual, const Tensor& expected) {
  if (actual.numel() == 0) return 0;
  return amax(abs(actual.to(kFloat64) - expected.to(kFloat64))).item<double>();
}

TEST(BlockKernel, Matmul) {
  for (const Shape& sizes : {Shape{32, 16, 48}, Shape{100, 70, 90}, Shape{1, 1, 1},
                             Shape{33, 17, 49}, Shape{5, 0, 7}, Shape{0, 4, 3}})
    for (DType dtype : {kFloat32, kBFloat16, kFloat64}) {
      const Tensor a = randn({sizes[0], sizes[1]}).to(dtype),
                   b = randn({sizes[1], sizes[2]}).to(dtype);
      const Tensor c = full({sizes[0], sizes[2]}, 7, {.dtype = dtype});
      matmul_blocks(a, b, c);
      const Tensor expected = matmul(a.to(kFloat64), b.to(kFloat64));
      EXPECT_LT(largest_difference(c, expected), dtype == kBFloat16 ? 0.25 : 1e-4)
          << sizes << " " << dtype;
    }
  // Any strides.
  const Tensor a = randn({70, 100}).transpose(0, 1), b = randn({140, 90}).narrow(0, 3, 70);
  const Tensor c = empty({90, 100}).transpose(0, 1);
  matmul_blocks(a, b, c);
  EXPECT_LT(largest_difference(c, matmul(a, b)), 1e-4);
}

// A row of any length in blocks of 64 columns: the running maximum and sum of exponentials.
const auto long_softmax = jit::kernel("long_softmax", [](Array x, Array y) {
  const int64_t width = 64;
  const Index row = program(x.size(0));
  const Tile most = Tile::full(1, 1, -INFINITY), total = Tile::zeros(1, 1);
  jit::loop(0, x.size(1), width, [&](Index k) {
    const Tile v = load(x(row, from(k, width))).as(kFloat32);
    const Tile larger = maximum(most, max(v));
    total.set(total * exp(most - larger) + sum(exp(v - larger)));
    most.set(larger);
  });
  jit::loop(0, x.size(1), width, [&](Index k) {
    const Tile v = load(x(row, from(k, width))).as(kFloat32);
    store(y(row, from(k, width)), exp(v - most) / total);
  });
});

TEST(BlockKernel, LoopsOverBlocksOfARow) {
  for (int64_t length : {1, 63, 64, 65, 1000}) {
    const Tensor x = randn({7, length}) * 4 - 20, y = empty({7, length});
    long_softmax(x, y);
    EXPECT_TRUE(allclose(y, softmax(x, -1), 1e-5, 1e-7)) << length;
  }
}

TEST(BlockKernel, BoundsOfTilesAndMaskedSet) {
  // The largest of every column, over blocks of rows; the last block has fewer.
  const auto column_maximum = jit::kernel("column_maximum", [](Array x, Array y) {
    const Index j = program(ceil_div(x.size(1), 32));
    const Tile best = Tile::full(16, 32, -INFINITY);
    jit::loop(0, x.size(0), 16,
              [&](Index k) { best.set(maximum(best, load(x(from(k, 16), block(j, 32))))); });
    store(y(block(j, 32)), max(best, 0));
  });
  const Tensor x = randn({37, 70}) - 10, y = empty({70});
  column_maximum(x, y);
  EXPECT_TRUE(equal(y, amax(x, {0})));
  // Means of rows and columns at the edge count what exists.
  const auto means = jit::kernel("means", [](Array in, Array rows, Array columns) {
    const Index i = program(1);
    const Tile v = load(in(block(i, 64), block(i, 128))) + 1;
    store(rows(block(i, 64)), mean(v));
    store(columns(block(i, 128)), mean(v, 0));
  });
  const Tensor rows = empty({37}), columns = empty({70});
  means(x, rows, columns);
  EXPECT_TRUE(allclose(rows, x.mean(Dims{1}) + 1, 1e-5, 1e-5));
  EXPECT_TRUE(allclose(columns, x.mean(Dims{0}) + 1, 1e-5, 1e-5));
}

TEST(BlockKernel, ManyDimsTransposesAndPositions) {
  const auto permuted = jit::kernel("permuted", [](Array x, Array y) {
    const Index b = program(x.size(0)), i = program(ceil_div(x.size(1), 16)),
                j = program(ceil_div(x.size(2), 16));
    const Tile v = load(x(b, block(i, 16), block(j, 16)));
    const Tile below = positions(v, 0) + as_tile(i * 16) >= positions(v) + as_tile(j * 16);
    store(y(b, block(j, 16), block(i, 16)), transposed(where(below, v, 0)));
  });
  const Tensor x = randn({3, 37, 41}), y = empty({3, 41, 37});
  permuted(x, y);
  EXPECT_TRUE(equal(y, tril(x).transpose(1, 2)));
}

TEST(BlockKernel, AtomicAdd) {
  const auto histogram = jit::kernel("column_sums", [](Array x, Array y) {
    const Index i = program(ceil_div(x.size(0), 8));
    atomic_add(y(all), sum(load(x(block(i, 8), all)), 0));
  });
  const Tensor x = randint(-5, 6, {1000, 33}).to(kFloat32), y = zeros({33});
  histogram(x, y);
  EXPECT_TRUE(equal(y, x.sum(Dims{0})));
  const DeterministicScope deterministic(true);
  const Tensor z = randn({1000, 33}), first = zeros({33}), second = zeros({33});
  histogram(z, first);
  histogram(z, second);
  EXPECT_TRUE(equal(first, second));
}

TEST(BlockKernel, RandomNumbersAreTheLibrarys) {
  const auto draw = jit::kernel("draw", [](Array u, Array n, uint64_t seed, uint64_t offset) {
    const Index i = program(ceil_div(u.size(0), 16)), j = program(ceil_div(u.size(1), 40));
    store(u(block(i, 16), block(j, 40)), uniform(u(block(i, 16), block(j, 40)), seed, offset));
    store(n(block(i, 16), block(j, 40)), normal(n(block(i, 16), block(j, 40)), seed, offset));
  });
  const Tensor u = empty({37, 150}), n = empty({37, 150});
  draw(u, n, 1234567890123456789ull, 55ull);
  const Tensor expected = empty({37, 150});
  apply_inplace(uniform_op, {expected}, {.seed = 1234567890123456789ull, .offset = 55});
  EXPECT_TRUE(equal(u, expected));
  apply_inplace(normal_op, {expected}, {.seed = 1234567890123456789ull, .offset = 55});
  EXPECT_TRUE(equal(n, expected));
}

TEST(BlockKernel, ScalarsOutputsAndDtypes) {
  const auto split = jit::kernel(
      "split", [](Array x, Array whole, Array rest, Array count, double scale, int64_t rows) {
        const Index i = program(ceil_div(x.size(0), 4));
        const Tile v = load(x(from(i * 4, 4, rows), all)) * scale;
        const Tile floor = op("floor", {v});
        store(whole(from(i * 4, 4, rows), all), floor);
        store(rest(from(i * 4, 4, rows), all), v - floor);
        atomic_add(count(0), sum(sum((v > 0.5).as(kInt64)), 0));
      });
  const Tensor x = rand({10, 6}), rest = full({10, 6}, -1.f);
  const Tensor whole = full({10, 6}, -1, {.dtype = kInt32});
  const Tensor count = zeros({1}, {.dtype = kInt64});
  split(x, whole, rest, count, 10., 7);
  const Tensor v = (x * 10).narrow(0, 0, 7);
  EXPECT_TRUE(equal(whole.narrow(0, 0, 7), floor(v).to(kInt32)));
  EXPECT_TRUE(allclose(rest.narrow(0, 0, 7), v - floor(v), 1e-5, 1e-5));
  EXPECT_TRUE(equal(rest.narrow(0, 7, 3), full({3, 6}, -1.f)));
  EXPECT_EQ(count.item<int64_t>(), (v > 0.5).sum().item<int64_t>());
}

TEST(BlockKernel, TunablesAreChosenByTime) {
  std::vector<int64_t> used;
  const auto sums = jit::kernel("tuned_sums", [&](Array x, Array y) {
    const int64_t rows = jit::tunable("ROWS", {1, 64});
    used.push_back(rows);
    const Index i = program(ceil_div(x.size(0), rows));
    store(y(block(i, rows)), sum(load(x(block(i, rows), all)) * 2));
  });
  const Tensor x = randn({4096, 8}), y = empty({4096});
  for (int call = 0; call < 8; ++call) {
    y.fill_(0);
    sums(x, y);
    EXPECT_TRUE(allclose(y, x.sum(Dims{1}) * 2, 1e-5, 1e-5));
  }
  EXPECT_EQ(used.back(), 64);  // one row per program is far slower
  {
    const DeterministicScope deterministic(true);
    sums(x, y);
    EXPECT_EQ(used.back(), 1);
  }
}

// ---- mistakes -----------------------------------------------------------------------------------

void expect_error(std::string_view part, const std::function<void()>& call) {
  const std::string text = error_of(call);
  EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\ngot: " << text;
}

template <class Body>
void expect_mistake(std::string_view part, const Body& body) {
  const Tensor x = randn({8, 6}), y = empty({8, 6});
  expect_error(part, [&] { jit::kernel("wrong", body)(x, y); });
}

TEST(BlockKernel, MistakesAreNamed) {
  expect_mistake("kernel wrong: argument 0, dim 0: index 8 is out of range for size 8",
                 [](Array x, Array y) {
                   const Index i = program(x.size(0));
                   store(y(i, all), load(x(i + 1, all)));
                 });
  expect_mistake("start -4 is out of range", [](Array x, Array y) {
    const Index i = program(2);
    store(y(block(i, 4), all), load(x(block(i - 1, 4), all)));
  });
  expect_mistake("tiles of 8 and 4 rows do not fit", [](Array x, Array y) {
    const Index i = program(1);
    store(y(block(i, 8), all), load(x(block(i, 8), all)) + load(x(block(i, 4), all)));
  });
  expect_mistake("a tile of 4 x 6 cannot be stored in argument 1 as a tile of 8 x 6",
                 [](Array x, Array y) {
                   const Index i = program(1);
                   store(y(block(i, 8), all), load(x(block(i, 4), all)));
                 });
  expect_mistake("all programs of grid dim 0 store to the same place of argument 1",
                 [](Array x, Array y) {
                   const Index i = program(8);
                   store(y(0, all), load(x(i, all)));
                 });
  expect_mistake("made in a loop is used after it", [](Array x, Array y) {
    const Index i = program(1);
    std::optional<Tile> last;
    jit::loop(0, 4, 1, [&](Index k) { last = load(x(k, all)); });
    store(y(i, all), *last);
  });
  expect_mistake("the counter of a loop is used after the loop", [](Array x, Array y) {
    const Index i = program(1);
    std::optional<Index> last;
    jit::loop(0, 4, 1, [&](Index k) { last = k; });
    store(y(i, all), load(x(*last, all)));
  });
  expect_mistake("a loop's step is at least 1, got 0", [](Array x, Array y) {
    const Index i = program(1);
    const Tile v = load(x(i, all));
    jit::loop(0, 4, 0, [&](Index) { v.set(v * 2); });
    store(y(i, all), v);
  });
  expect_mistake("is read after it was stored to", [](Array x, Array y) {
    const Index i = program(8);
    store(y(i, all), load(x(i, all)));
    store(x(i, all), load(y(i, all)));
  });
}

TEST(BlockKernel, WrongTilesAndArgumentsAreNamed) {
  expect_mistake("8 x 6 times 8 x 6 do not fit: 6 columns, 8 rows", [](Array x, Array y) {
    const Index i = program(1);
    const Tile v = load(x(block(i, 8), all));
    store(y(block(i, 8), all), dot(v, v));
  });
  expect_mistake("dot: expected tiles of one dtype, got float32 and float64", [](Array x, Array y) {
    const Index i = program(1);
    const Tile v = load(x(block(i, 8), all));
    store(y(block(i, 8), block(i, 8)), dot(v, transposed(v.as(kFloat64))));
  });
  expect_mistake("cannot be the new value", [](Array x, Array y) {
    const Index i = program(1);
    const Tile v = Tile::zeros(1, 6);
    v.set(load(x(block(i, 8), all)));
    store(y(i, all), v);
  });
  expect_mistake("is used with 1 dims, got shape [8, 6]", [](Array x, Array y) {
    const Index i = program(1);
    store(y(i, all), load(x(all)));
  });
  expect_mistake("tunable B is named twice", [](Array x, Array y) {
    const Index i = program(jit::tunable("B", {8}) / jit::tunable("B", {1}));
    store(y(i, all), load(x(i, all)));
  });
  expect_mistake("program() comes first",
                 [](Array x, Array y) { store(y(0, all), load(x(0, all))); });
  expect_mistake("argument 0 has no dim 2", [](Array x, Array) { program(x.size(2)); });
  expect_error("loop is for the body of a kernel", [] { jit::loop(0, 1, 1, [](Index) {}); });
  expect_error("argument 0 cannot be complex64", [] {
    matmul_blocks(zeros({4, 4}, {.dtype = kComplex64}), zeros({4, 4}), zeros({4, 4}));
  });
  const Tensor x = randn({4, 4});
  expect_error("argument 2 is stored to and shares memory with argument 0", [&] {
    matmul_blocks(x, randn({4, 4}), x);
  });
}

// ---- random programs
// ------------------------------------------------------------------------------

/// A random program: its ops are applied to tiles, and to float64 tensors of what a tile holds.
struct RandomProgram {
  explicit RandomProgram(unsigned seed) : random(seed) {
    for (int i = 0; i < 12; ++i) choices.push_back(static_cast<unsigned>(random()));
    const int64_t extents[] = {1, 3, 8, 16, 40};
    rows = extents[random() % 5];
    columns = extents[random() % 5];
    sizes = {static_cast<int64_t>(1 + random() % 50), static_cast<int64_t>(1 + random() % 50)};
  }

  /// The ops; T is Tile or Tensor, `reduce` keeps the axis.
  template <class T, class Reduce, class Product>
  T apply(const T& x, const T& y, const T& row, const Reduce& reduced,
          const Product& product) const {
    std::vector<T> values = {x, y};
    for (size_t i = 0; i < choices.size(); ++i) {
      const T a = values[choices[i] / 16 % values.size()];
      const T b = values[choices[i] / 256 % values.size()];
      switch (choices[i] % 8) {
        case 0:
          values.push_back(tanh(a + b * 0.5));
          break;
        case 1:
          values.push_back(a - reduced(a, 1));
          break;
        case 2:
          values.push_back(a * reduced(b, 0));
          break;
        case 3:
          values.push_back(maximum(a, b) + row);
          break;
        case 4:
          // Where the branches meet they are equal: rounding may take either.
          values.push_back(where(a > b, a - b, (b - a) * 0.5));
          break;
        case 5:
          values.push_back(tanh(product(a, b)));
          break;
        case 6:
          values.push_back(sigmoid(a) * 2);
          break;
        default:
          values.push_back(abs(a) + exp(-abs(b)));
      }
    }
    return values.back();
  }

  std::mt19937 random;
  std::vector<unsigned> choices;
  int64_t rows, columns;
  Shape sizes;
};

TEST(BlockKernel, RandomProgramsAgreeWithFloat64) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    const RandomProgram p(seed);
    manual_seed(seed);
    const int64_t m = p.sizes[0], n = p.sizes[1];
    const auto random_kernel = jit::kernel("random", [&](Array x, Array y, Array w, Array out) {
      const Index i = program(ceil_div(x.size(0), p.rows));
      const Index j = program(ceil_div(x.size(1), p.columns));
      const auto here = [&](Array a) { return a(block(i, p.rows), block(j, p.columns)); };
      const Tile total = Tile::zeros(here(out));
      jit::loop(0, 2, 1, [&](Index k) {
        const Tile scale = as_tile(k).as(kFloat32) + 1;
        total += p.apply<Tile>(
                     load(here(x)).as(kFloat32), load(here(y)).as(kFloat32),
                     load(w(block(j, p.columns))).as(kFloat32),
                     [](const Tile& t, int axis) { return axis == 1 ? mean(t) : max(t, 0); },
                     [](const Tile& a, const Tile& b) { return dot(dot(a, transposed(b)), a); }) *
                 scale;
      });
      store(here(out), total);
    });
    const bool transposes = seed % 3 == 0;
    const Tensor x = transposes ? randn({n, m}).transpose(0, 1) : randn({m, n});
    const Tensor y = randn({m, n}).to(seed % 2 ? kBFloat16 : kFloat32), w = randn({n});
    const Tensor out = empty({m, n});
    random_kernel(x, y, w, out);
    Tensor expected = empty({m, n}, {.dtype = kFloat64});
    for (int64_t r = 0; r < m; r += p.rows)
      for (int64_t c = 0; c < n; c += p.columns) {
        const int64_t height = std::min(p.rows, m - r), width = std::min(p.columns, n - c);
        const auto part = [&](const Tensor& t) {
          return t.narrow(0, r, height).narrow(1, c, width);
        };
        const Tensor value = p.apply<Tensor>(
            part(x).to(kFloat64), part(y).to(kFloat64), w.narrow(0, c, width).to(kFloat64),
            [](const Tensor& t, int axis) {
              return axis == 1 ? mean(t, {1}, true) : amax(t, {0}, true);
            },
            [](const Tensor& a, const Tensor& b) {
              return matmul(matmul(a, b.transpose(0, 1)), a);
            });
        part(expected).copy_(value * 3);
      }
    const double scale = amax(abs(expected)).item<double>() + 1;
    EXPECT_LT(largest_difference(out, expected) / scale, 2e-3) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tensora::test
