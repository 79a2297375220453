// Kernels that a program writes itself: docs/write-a-kernel.md.
#include "tensora/jit/kernel.h"

#include "tests/helpers.h"

namespace tensora::test {
namespace {

using jit::all;
using jit::Array;
using jit::Index;
using jit::Tile;
using ::tensora::testing::error_of;

const auto softmax_rows = jit::kernel("softmax_rows", [](Array x, Array y) {
  const Index row = program(x.size(0));
  const Tile v = load(x(row, all)).as(kFloat32);
  const Tile e = exp(v - max(v));
  store(y(row, all), e / sum(e));
});

const auto rms_norm_int8 =
    jit::kernel("rms_norm_int8", [](Array x, Array w, Array q, Array scale, float eps) {
      const Index row = program(x.size(0));
      const Tile v = load(x(row, all)).as(kFloat32);
      const Tile n = v * rsqrt(mean(v * v) + eps) * load(w(all)).as(kFloat32);
      const Tile s = max(abs(n)) / 127.f;
      store(q(row, all), round(n / s));
      store(scale(row), s);
    });

TEST(UserKernel, Softmax) {
  for (DType dtype : {kFloat32, kBFloat16, kFloat64})
    for (const Shape& sizes : {Shape{64, 1000}, Shape{3, 7}, Shape{1, 1}, Shape{0, 5}}) {
      const Tensor x = randn(sizes).to(dtype), y = empty(sizes, {.dtype = dtype});
      softmax_rows(x, y);
      EXPECT_TRUE(allclose(y.to(kFloat32), softmax(x.to(kFloat32), -1), 1e-2, 1e-6));
    }
  const Tensor x = randn({40, 30}).transpose(0, 1), y = empty({40, 30}).transpose(0, 1);
  softmax_rows(x, y);
  EXPECT_TRUE(allclose(y, softmax(x, -1), 1e-5, 1e-7));
}

TEST(UserKernel, RmsNormToInt8) {
  const Tensor x = randn({50, 256}, {.dtype = kBFloat16}), w = rand({256}) + 0.5;
  const Tensor q = empty({50, 256}, {.dtype = kInt8}), scale = empty({50});
  for (float eps : {1e-6f, 0.5f}) {  // a parameter, not a constant
    rms_norm_int8(x, w, q, scale, eps);
    const Tensor n = rms_norm(x.to(kFloat32), {256}, w, eps);
    const Tensor s = amax(abs(n), {-1}, true) / 127;
    EXPECT_TRUE(allclose(scale.view({50, 1}), s, 1e-5, 1e-7));
    EXPECT_LE(amax(abs(q.to(kFloat32) - round(n / s))).item<float>(), 1.f);
  }
}

TEST(UserKernel, PositionsAndConditions) {
  const auto causal = jit::kernel("causal", [](Array x, Array limit, Array y) {
    const Index row = program(x.size(0));
    const Tile v = load(x(row, all));
    store(y(row, all), where(positions(v) < load(limit(row)), v, v * 0));
  });
  const Tensor x = ones({4, 6}), y = empty({4, 6});
  causal(x, arange(4), y);
  EXPECT_TRUE(equal(y.sum(Dims{1}), arange(4).to(kFloat32)));
}

TEST(UserKernel, MistakesAreNamed) {
  const Tensor x = randn({4, 6}), narrow = empty({4, 5}), y = empty({4, 6});
  const auto message = [](auto&& call) { return error_of(call); };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message([&] { softmax_rows(x, narrow); }),
      "a row of 6 cannot be stored in argument 1 as a row of 5");
  has(message([&] { softmax_rows(x, empty({3, 6})); }), "argument 1 must have 4 rows");
  has(message([&] { softmax_rows(randn({6}), y); }), "argument 0 is used with 2 dims");
  has(message([&] { softmax_rows(x.clone().requires_grad_(), y); }), "requires grad");
  has(message([&] { softmax_rows(x, y.transpose(0, 1)); }), "a row of 6 cannot be stored");
  const Tensor shared = randn({5, 6});
  has(message([&] { softmax_rows(shared.narrow(0, 0, 4), shared.narrow(0, 1, 4)); }),
      "argument 1 is stored to and shares memory with argument 0");
  has(message([&] { softmax_rows(x, empty({6}).expand({4, 6})); }), "share memory");
  has(message([&] { softmax_rows(x, Tensor()); }), "argument 1 is undefined");
  const auto nothing = jit::kernel("nothing", [](Array a) { program(a.size(0)); });
  has(message([&] { nothing(x); }), "kernel nothing: nothing is stored");
  const auto unreduced = jit::kernel("unreduced", [](Array a, Array b) {
    const Index row = program(a.size(0));
    store(b(row), load(a(row, all)));
  });
  has(message([&] { unreduced(x, empty({4})); }), "reduce it first");
  const auto unknown = jit::kernel("unknown", [](Array a, Array b) {
    const Index row = program(a.size(0));
    store(b(row, all), jit::op("matmul", {load(a(row, all))}));
  });
  has(message([&] { unknown(x, y); }), "there is no pointwise op 'matmul'");
}

}  // namespace
}  // namespace tensora::test
