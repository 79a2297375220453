#include <cmath>
#include <cstring>

#include "tests/helpers.h"

// The expected numbers are PyTorch's for the same calls.

namespace tensora {
namespace {

using testing::contains, testing::error_of;
using Z = Complex<double>;

TEST(DType, UnsignedWordsConvertExactly) {
  const std::vector<uint64_t> most{0, 1, 65535, 4294967295u, 1ull << 63, ~0ull};
  const Tensor words = from_blob(most.data(), {6}, {.dtype = kUInt64});
  EXPECT_EQ(to_vector<uint64_t>(words), most);
  EXPECT_EQ(to_vector<uint16_t>(words), (std::vector<uint16_t>{0, 1, 65535, 65535, 0, 65535}));
  EXPECT_EQ(to_vector<uint32_t>(words),
            (std::vector<uint32_t>{0, 1, 65535, 4294967295u, 0, 4294967295u}));
  EXPECT_EQ(to_vector<float>(words), (std::vector<float>{0, 1, 65535, 0x1p32f, 0x1p63f, 0x1p64f}));
  EXPECT_EQ(to_vector<double>(words.to(kUInt32)),
            (std::vector<double>{0, 1, 65535, 4294967295.0, 0, 4294967295.0}));
  EXPECT_EQ(to_vector<bool>(words), (std::vector<bool>{false, true, true, true, true, true}));
  EXPECT_EQ(to_vector<uint64_t>(tensor({0x1p63, 3.9, -1.0}, kFloat64)),
            (std::vector<uint64_t>{1ull << 63, 3, ~0ull}));
  EXPECT_EQ(to_vector<uint16_t>(tensor({70000.0f, -3.0f})), (std::vector<uint16_t>{4464, 65533}));
  EXPECT_TRUE(contains(words.to_string(), "18446744073709551615"));
}

TEST(DType, UnsignedWordsComputeWhatIsExact) {
  const Tensor x = tensor({1, 2, 65535}).to(kUInt16), big = tensor({-1, 3}).to(kUInt64);
  EXPECT_EQ(to_vector<uint16_t>(x * x), (std::vector<uint16_t>{1, 4, 1}));
  EXPECT_EQ(to_vector<bool>(x == 2), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(to_vector<bool>(big != big), (std::vector<bool>{false, false}));
  EXPECT_EQ(to_vector<uint64_t>(where(big == 3, big, big * 2)),
            (std::vector<uint64_t>{~0ull - 1, 3}));
  EXPECT_EQ((x * tensor({0.5f})).dtype(), kFloat32);
  EXPECT_TRUE(contains(error_of([&] { x + x; }), "add: not supported for uint16"));
  EXPECT_TRUE(contains(error_of([&] { x* tensor({1}); }), "there is no common dtype"));
  EXPECT_TRUE(contains(error_of([&] { big[0].item(); }), "item: 18446744073709551615 exceeds"));
}

TEST(DTypeTable, SizesCategoriesAndBlocks) {
  EXPECT_EQ(element_size(kComplex128), 16u);
  EXPECT_EQ(bytes_of(kQ8_0, 64), 68);
  EXPECT_TRUE(is_floating_point(kFloat8E5M2) && !is_floating_point(kComplex64));
  EXPECT_TRUE(is_complex(kComplex64) && is_differentiable(kComplex64));
  EXPECT_EQ(zeros({3}, {.dtype = kComplex128}).nbytes(), 48u);
  EXPECT_EQ(tensora::contains(kRealDTypes, kFloat8E4M3), false);
}

template <class T>
concept Accumulates = requires { typename accumulate_t<T>; };

TEST(DTypeTable, SumsAreKeptInTheTypeOfTheTable) {
  static_assert(std::is_same_v<accumulate_t<Half>, float>);
  static_assert(std::is_same_v<accumulate_t<bool>, int64_t>);
  static_assert(std::is_same_v<accumulate_t<Complex<float>>, Complex<float>>);
  static_assert(!Accumulates<char16_t>);  // no type but those of the table
}

std::vector<float> through(const std::vector<float>& values, DType dtype) {
  return to_vector<float>(to(to(tensor(values), dtype), kFloat32));
}

TEST(Float8, RoundsToNearestEven) {
  EXPECT_EQ(through({1e-3f, 0.1f, 17, 250, 3, 200}, kFloat8E4M3),
            (std::vector<float>{0.001953125f, 0.1015625f, 16, 256, 3, 192}));
  EXPECT_EQ(through({1e-3f, 0.1f, 17, 250}, kFloat8E5M2),
            (std::vector<float>{0.0009765625f, 0.09375f, 16, 256}));
  // Ties, subnormal numbers and the zeros below them.
  EXPECT_EQ(through({0x1p-10f, 1.5f * 0x1p-9f, 2.5f * 0x1p-9f, -1e-30f}, kFloat8E4M3),
            (std::vector<float>{0, 0x1p-8f, 0x1p-8f, -0.0f}));
  EXPECT_EQ(through({0x1p-17f, 0x1p-16f}, kFloat8E5M2), (std::vector<float>{0, 0x1p-16f}));
}

TEST(Float8, BeyondTheLargest) {
  // Infinity is no number of e4m3fn: what is too large becomes the largest.
  EXPECT_EQ(through({448, 464, 500, 1e30f, INFINITY, -INFINITY}, kFloat8E4M3),
            (std::vector<float>{448, 448, 448, 448, 448, -448}));
  EXPECT_EQ(through({57344, 61439, 61440, -1e30f}, kFloat8E5M2),
            (std::vector<float>{57344, 57344, INFINITY, -INFINITY}));
  for (DType dtype : {kFloat8E4M3, kFloat8E5M2}) EXPECT_TRUE(std::isnan(through({NAN}, dtype)[0]));
}

TEST(Float8, EveryByteSurvivesTheWayThroughFloat) {
  for (DType dtype : {kFloat8E4M3, kFloat8E5M2}) {
    std::vector<uint8_t> bytes(256);
    for (int i = 0; i < 256; ++i) bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
    const Tensor all = from_blob(bytes.data(), {256}, {.dtype = dtype});
    const Tensor back = to(to(all, kFloat64), dtype);
    for (int i = 0; i < 256; ++i) {
      const float value = all[i].item<float>();
      if (!std::isnan(value))
        EXPECT_EQ(static_cast<const uint8_t*>(back.data_ptr())[i], i) << value;
      else
        EXPECT_TRUE(std::isnan(back[i].item<float>()));
    }
  }
}

TEST(Float8, StoresAndMovesButDoesNotCompute) {
  const Tensor x = tensor({1.5, -2., 3.}, {.dtype = kFloat8E4M3});
  EXPECT_EQ(x[1].item<double>(), -2);
  EXPECT_TRUE(equal(index_select(x, 0, tensor({2, 0})), tensor({3., 1.5}, {.dtype = kFloat8E4M3})));
  EXPECT_TRUE(equal(cat({x, x})[3], x[0]));
  EXPECT_TRUE(equal(where(tensor({true, false, true}), x, flip(x, {0})), x));
  EXPECT_EQ(to_vector<bool>(eq(x, full_like(x, 3))), (std::vector<bool>{false, false, true}));
  EXPECT_TRUE(contains(error_of([&] { x + x; }), "add: not supported for float8_e4m3fn"));
  EXPECT_TRUE(contains(error_of([&] { sum(x); }), "sum: not supported for float8_e4m3fn"));
  EXPECT_TRUE(contains(error_of([&] { eq(x, ones({3})); }), "no common dtype"));
  EXPECT_TRUE(contains(error_of([&] { set_default_dtype(kFloat8E5M2); }), "computes"));
}

TEST(ComplexNumbers, CreationAndItem) {
  EXPECT_EQ(tensor({Z(1, 2), Z(0, 3)}).dtype(), kComplex64);
  EXPECT_EQ(full({2}, Z(1, 1)).dtype(), kComplex64);
  EXPECT_EQ(ones({2}, {.dtype = kComplex128})[1].item().to<Z>(), Z(1));
  EXPECT_EQ(tensor({1, 2}, {.dtype = kComplex64})[1].item().to<Z>(), Z(2));
  EXPECT_EQ(to_vector<Z>(tensor({Z(1, -2)}))[0], Z(1, -2));
  EXPECT_EQ(tensor(std::vector<Complex<float>>{{1, 2}}).dtype(), kComplex64);
  EXPECT_TRUE(contains(error_of([] { tensor({Z(1, 1)}, {.dtype = kFloat32}); }),
                       "a complex number cannot be stored as float32"));
  EXPECT_TRUE(contains(error_of([] { zeros({2}).fill_(Z(0, 1)); }), "complex number"));
}

TEST(ComplexNumbers, Casts) {
  const Tensor z = tensor({Z(1.5, 2), Z(-3, 0), Z(0, 1), Z(0, 0)});
  EXPECT_EQ(to_vector<float>(to(z, kFloat32)), (std::vector<float>{1.5f, -3, 0, 0}));
  EXPECT_EQ(to_vector<bool>(to(z, kBool)), (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(to_vector<int64_t>(to(z, kInt8)), (std::vector<int64_t>{1, -3, 0, 0}));
  EXPECT_TRUE(equal(to(to(z, kComplex128), kComplex64), z));
  EXPECT_TRUE(
      equal(to(tensor({1.5, 448.}, {.dtype = kFloat8E4M3}), kComplex64), tensor({Z(1.5), Z(448)})));
}

TEST(ComplexNumbers, RandomPartsShareTheVariance) {
  manual_seed(7);
  const Tensor z = view_as_real(randn({20000}, {.dtype = kComplex64}));
  EXPECT_NEAR(var(z).item<double>(), 0.5, 0.02);
  const Tensor u = view_as_real(rand({20000}, {.dtype = kComplex128}));
  EXPECT_NEAR(mean(u).item<double>(), 0.5, 0.01);
  EXPECT_TRUE(amin(u).item<double>() >= 0 && amax(u).item<double>() < 1);
}

TEST(ComplexNumbers, FunctionsAtTheEdges) {
  const auto at = [](const Tensor& x) { return to_vector<Z>(x)[0]; };
  EXPECT_EQ(at(exp(tensor({Z(1e5, 0)}))), Z(INFINITY, 0));
  EXPECT_EQ(at(sqrt(tensor({Z(-4, 0.0)}, {.dtype = kComplex128}))), Z(0, 2));
  EXPECT_EQ(at(sqrt(tensor({Z(-4, -0.0)}, {.dtype = kComplex128}))), Z(0, -2));
  EXPECT_EQ(at(tanh(tensor({Z(1e5, 1)}))).re, 1);
  // Nothing overflows on the way.
  EXPECT_NEAR(at(tensor({Z(1e30, 1e30)}) / tensor({Z(1e30, 1e30)})).re, 1, 1e-6);
  EXPECT_NEAR(abs(tensor({Z(3e30, 4e30)})).item<double>() / 5e30, 1, 1e-6);
  const Z quotient = at(tensor({Z(0, 0)}) / tensor({Z(0, 0)}));
  EXPECT_TRUE(std::isnan(quotient.re) && std::isnan(quotient.im));
  EXPECT_EQ(to_vector<float>(angle(tensor({-1., 2., -0.0}))),
            (std::vector<float>{3.14159274f, 0, 0}));
  EXPECT_TRUE(to_vector<bool>(isinf(tensor({Z(NAN, INFINITY)})))[0]);
  EXPECT_TRUE(allclose(tensor({Z(1, 2)}), tensor({Z(1, 2.000001)})));
  EXPECT_FALSE(allclose(tensor({Z(1, 2)}), tensor({Z(1, 2.1)})));
}

TEST(ComplexNumbers, GradientsAreThoseOfPyTorch) {
  const Tensor a = tensor({Z(1, 2), Z(0.5, -1)}, {.requires_grad = true});
  const Tensor b = tensor({2., 3.}, {.requires_grad = true});
  sum(abs(a * b * conj(a) + exp(a / b))).backward();
  EXPECT_EQ(b.grad().dtype(), kFloat32);
  EXPECT_TRUE(allclose(a.grad(), tensor({Z(4.4974, 7.3040), Z(3.3717, -5.8822)}), 1e-4, 1e-4));
  EXPECT_TRUE(allclose(b.grad(), tensor({5.3270, 1.2155}), 1e-4, 1e-4));
}

TEST(ComplexNumbers, GradientsAtZero) {
  for (Tensor (*op)(const Tensor&) :
       {+[](const Tensor& z) { return abs(z); }, +[](const Tensor& z) { return angle(z); }}) {
    const Tensor z = tensor({Z(0, 0), Z(3, 4)}, {.requires_grad = true});
    sum(op(z)).backward();
    EXPECT_EQ(to_vector<Z>(z.grad())[0], Z(0)) << z.grad();
  }
}

TEST(ComplexNumbers, WritingThroughAViewOfTheParts) {
  const Tensor x = tensor({Z(1, 2), Z(3, 4)}, {.requires_grad = true});
  const Tensor z = x * 2;
  imag(z).zero_();
  const Tensor y = sum(view_as_real(z) * tensor({{1., 10.}, {100., 1000.}}));
  EXPECT_EQ(y.item<double>(), 602);
  y.backward();
  EXPECT_EQ(to_vector<Z>(x.grad()), (std::vector<Z>{Z(2, 0), Z(200, 0)}));
}

TEST(Quantized, BytesAndCopies) {
  const Tensor x = randn({4, 64});
  const Tensor q = quantize(x, kQ8_0);
  EXPECT_EQ(q.nbytes(), 4u * 2 * 34);
  EXPECT_EQ(q.sizes(), (Shape{4, 64}));
  EXPECT_TRUE(contains(error_of([&] { q.element_size(); }), "blocks of 34 bytes"));
  EXPECT_TRUE(contains(error_of([&] { q[0][0]; }), "blocks of 32"));
  const Tensor target = empty({4, 64}, {.dtype = kQ8_0});
  target.copy_(q);
  EXPECT_EQ(std::memcmp(target.data_ptr(), q.data_ptr(), q.nbytes()), 0);
  EXPECT_TRUE(equal(dequantize(clone(q)[2]), dequantize(q)[2]));
  EXPECT_LT(amax(abs(dequantize(q) - x)).item<double>(), amax(abs(x)).item<double>() / 200);
}

TEST(Quantized, BlocksAreThoseOfGguf) {
  std::vector<float> values(32);
  for (int i = 0; i < 32; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i - 16) / 4;
  const Tensor q = quantize(tensor(values), kQ8_0);
  const auto* bytes = static_cast<const int8_t*>(q.data_ptr());
  Half scale;
  std::memcpy(&scale, bytes, 2);
  EXPECT_EQ(scale.bits, Half(4.0f / 127).bits);
  EXPECT_EQ(bytes[2], -127);  // -4
  EXPECT_EQ(bytes[2 + 16], 0);
  EXPECT_EQ(bytes[2 + 31], 119);  // 3.75 * 127 / 4 = 119.06
}

TEST(Quantized, OddBlocks) {
  std::vector<float> values(96, 0);
  values[40] = INFINITY;
  values[70] = 1e-42f;
  const std::vector<float> back = to_vector<float>(dequantize(quantize(tensor(values), kQ8_0)));
  EXPECT_EQ(back[3], 0);
  EXPECT_TRUE(std::isnan(back[33]) && std::isnan(back[40]));
  EXPECT_EQ(back[70], 0);
}

}  // namespace
}  // namespace tensora
