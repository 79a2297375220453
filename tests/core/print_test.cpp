#include <cmath>
#include <sstream>

#include "tests/helpers.h"

// The expected texts are PyTorch's for the same tensors, but for the names of gradient functions.

namespace tensora {
namespace {

using testing::contains, testing::error_of;

std::string text(const NestedList& data, const TensorOptions& options = {}) {
  return tensor(data, options).to_string();
}

struct RestoreOptions {
  ~RestoreOptions() { set_printoptions({}); }
};

TEST(Print, Numbers) {
  EXPECT_EQ(text({{1., 2.}, {3., 4.}}), "tensor([[1., 2.],\n        [3., 4.]])");
  EXPECT_EQ(text({1.5, -2, 300}), "tensor([  1.5000,  -2.0000, 300.0000])");
  EXPECT_EQ(text({1, -20, 300}), "tensor([  1, -20, 300])");
  EXPECT_EQ(text({true, false}), "tensor([ True, False])");
  EXPECT_EQ(text(3.5), "tensor(3.5000)");
  EXPECT_EQ(text(7), "tensor(7)");
  EXPECT_EQ(text(true), "tensor(True)");
  EXPECT_EQ(text({-0.0, 0.0}), "tensor([-0., 0.])");
}

TEST(Print, ScientificMode) {
  EXPECT_EQ(text({1e-5, 1}), "tensor([1.0000e-05, 1.0000e+00])");
  EXPECT_EQ(text({1., 1001.}), "tensor([1.0000e+00, 1.0010e+03])");
  EXPECT_EQ(text({1., 1000.}), "tensor([   1., 1000.])");
  EXPECT_EQ(text({1e9}), "tensor([1.0000e+09])");
}

TEST(Print, NotFinite) {
  EXPECT_EQ(text({NAN, INFINITY, -INFINITY, 1.}), "tensor([nan, inf, -inf, 1.])");
  EXPECT_EQ(text({NAN, 0.5}), "tensor([   nan, 0.5000])");
  EXPECT_EQ(text({1e-5, -0.0, NAN, INFINITY}),
            "tensor([1.0000e-05, -0.0000e+00,        nan,        inf])");
  EXPECT_EQ(text(NAN), "tensor(nan)");
}

TEST(Print, DtypeDeviceAndGradient) {
  EXPECT_EQ(text({1., 2.}, {.dtype = kFloat64}), "tensor([1., 2.], dtype=torch.float64)");
  EXPECT_EQ(text({1, 2}, {.dtype = kUInt8}), "tensor([1, 2], dtype=torch.uint8)");
  EXPECT_EQ(text({1.5}, {.dtype = kBFloat16}), "tensor([1.5000], dtype=torch.bfloat16)");
  EXPECT_EQ(text({1.}, {.requires_grad = true}), "tensor([1.], requires_grad=True)");
  const Tensor x = tensor({1.}, {.requires_grad = true});
  EXPECT_EQ((x + x).to_string(), "tensor([2.], grad_fn=<add>)");
  EXPECT_EQ(empty({2, 3}, {.device = "meta"}).to_string(),
            "tensor(..., device='meta', size=(2, 3))");
  EXPECT_EQ(empty({2}, {.dtype = kInt64, .device = "meta"}).to_string(),
            "tensor(..., device='meta', size=(2,), dtype=torch.int64)");
}

TEST(Print, Empty) {
  EXPECT_EQ(text({}), "tensor([])");
  EXPECT_EQ(zeros({2, 0, 3}).to_string(), "tensor([], size=(2, 0, 3))");
  EXPECT_EQ(zeros({0}, {.dtype = kInt64}).to_string(), "tensor([], dtype=torch.int64)");
  EXPECT_EQ(Tensor().to_string(), "tensor(undefined)");
}

TEST(Print, LongLinesAreBroken) {
  EXPECT_EQ(arange(0, 30).to_string(),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])");
  EXPECT_EQ(arange(0, 19, {.dtype = kInt32}).to_string(),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18], dtype=torch.int32)");
}

TEST(Print, LargeTensorsAreSummarised) {
  EXPECT_EQ(arange(1001).to_string(), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_EQ(zeros({1001, 2}).to_string(),
            "tensor([[0., 0.],\n        [0., 0.],\n        [0., 0.],\n        ...,\n"
            "        [0., 0.],\n        [0., 0.],\n        [0., 0.]])");
  EXPECT_EQ(zeros({2, 2, 2}).to_string(),
            "tensor([[[0., 0.],\n         [0., 0.]],\n\n        [[0., 0.],\n         [0., 0.]]])");
}

TEST(Print, StridesDoNotShow) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(as_strided(x, {3, 2}, {1, 3}).to_string(),
            "tensor([[1, 4],\n        [2, 5],\n        [3, 6]])");
}

TEST(Print, Options) {
  const RestoreOptions restore;
  set_printoptions({.precision = 2});
  EXPECT_EQ(text({1.12345}), "tensor([1.12])");
  set_printoptions({.threshold = 5, .edgeitems = 2});
  EXPECT_EQ(arange(10).to_string(), "tensor([0, 1,  ..., 8, 9])");
  set_printoptions({.linewidth = 20});
  EXPECT_EQ(arange(5).to_string(), "tensor([0, 1, 2, 3,\n        4])");
  set_printoptions({.sci_mode = true});
  EXPECT_EQ(text({1., 2.}), "tensor([1.0000e+00, 2.0000e+00])");
  set_printoptions({.sci_mode = false});
  EXPECT_EQ(text({1e-5, 1.5}), "tensor([    0.0000,     1.5000])");
  EXPECT_TRUE(contains(error_of([] { set_printoptions({.precision = -1}); }), "precision"));
  EXPECT_TRUE(contains(error_of([] { set_printoptions({.edgeitems = -1}); }), "edgeitems"));
}

TEST(Print, Complex) {
  using Z = Complex<double>;
  EXPECT_EQ(text({{Z(1.5, 2), Z(-0.0, -0.25)}, {Z(100), Z(0, 1e-3)}}),
            "tensor([[  1.5000+2.0000e+00j,  -0.0000-2.5000e-01j],\n"
            "        [100.0000+0.0000e+00j,   0.0000+1.0000e-03j]])");
  EXPECT_EQ(text({Z(1e-6, 1), Z(2)}), "tensor([1.0000e-06+1.j, 2.0000e+00+0.j])");
  EXPECT_EQ(text({Z(NAN, 1), Z(INFINITY, -INFINITY)}), "tensor([nan+1.j, inf-infj])");
  EXPECT_EQ(text(Z(0.5, -1)), "tensor(0.5000-1.j)");
  EXPECT_EQ(text({Z(1, 2)}, {.dtype = kComplex128}), "tensor([1.+2.j], dtype=torch.complex128)");
  EXPECT_EQ(text({Z(0, 1)}, {.requires_grad = true}), "tensor([0.+1.j], requires_grad=True)");
  EXPECT_EQ(zeros({2, 0}, {.dtype = kComplex64}).to_string(),
            "tensor([], size=(2, 0), dtype=torch.complex64)");
  EXPECT_EQ((arange(12) * Z(1, -0.5)).to_string(),
            "tensor([ 0.+0.0000j,  1.-0.5000j,  2.-1.0000j,  3.-1.5000j,  4.-2.0000j,\n"
            "         5.-2.5000j,  6.-3.0000j,  7.-3.5000j,  8.-4.0000j,  9.-4.5000j,\n"
            "        10.-5.0000j, 11.-5.5000j])");
  EXPECT_EQ(zeros({1001}, {.dtype = kComplex64}).to_string(),
            "tensor([0.+0.j, 0.+0.j, 0.+0.j,  ..., 0.+0.j, 0.+0.j, 0.+0.j])");
}

TEST(Print, Float8AndQuantized) {
  EXPECT_EQ(text({1.5, -448., 0.002}, {.dtype = kFloat8E4M3}),
            "tensor([ 1.5000e+00, -4.4800e+02,  1.9531e-03], dtype=torch.float8_e4m3fn)");
  EXPECT_EQ(text({1.5, -2., 3.}, {.dtype = kFloat8E5M2}),
            "tensor([ 1.5000, -2.0000,  3.0000], dtype=torch.float8_e5m2)");
  EXPECT_EQ(quantize(ones({2, 32}), kQ8_0).to_string(),
            "tensor(..., size=(2, 32), dtype=torch.q8_0)");
}

TEST(Print, Streams) {
  std::ostringstream stream;
  stream << tensor({1, 2});
  EXPECT_EQ(stream.str(), "tensor([1, 2])");
}

}  // namespace
}  // namespace tensora
