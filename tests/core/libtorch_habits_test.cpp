// Ordinary lines of LibTorch programs and tutorials, which have to compile and mean the same here:
// making tensors, options, printing, conversion. libtorch_indexing_test.cpp has the rest.
#include <array>
#include <numeric>
#include <sstream>

#include "tests/helpers.h"

namespace torch = tensora;

namespace tensora::testing {
namespace {

template <class T>
std::string printed(const T& value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

TEST(LibTorchHabits, Factories) {
  EXPECT_EQ(torch::zeros({2, 3}).sizes(), (Shape{2, 3}));
  EXPECT_EQ(torch::zeros(4).sizes(), Shape{4});
  EXPECT_EQ(torch::zeros({2}, torch::kInt64).dtype(), kInt64);
  EXPECT_EQ(torch::zeros({2}, torch::kLong).dtype(), kInt64);
  EXPECT_EQ(torch::ones({2, 2}, torch::kFloat64).dtype(), kFloat64);
  EXPECT_EQ(torch::ones({2}, torch::kCPU).device(), Device("cpu"));
  EXPECT_EQ(torch::ones({2}, torch::Device("cpu")).device(), Device("cpu"));
  EXPECT_EQ(torch::ones({2}, torch::Device(torch::kCPU)).device(), Device("cpu"));
  EXPECT_EQ(torch::empty({2}, torch::kMeta).device(), Device("meta"));
  EXPECT_EQ(torch::full({2}, 7).dtype(), kInt64);
  EXPECT_EQ(values(torch::full({2}, 7, torch::kDouble)), (Values{7, 7}));
  EXPECT_EQ(torch::rand({3}, torch::kDouble).dtype(), kFloat64);
  EXPECT_EQ(torch::randn({3}, torch::dtype(torch::kDouble)).dtype(), kFloat64);
  EXPECT_EQ(torch::randint(10, {3}).dtype(), kInt64);
  EXPECT_EQ(torch::randint(0, 10, {3}, torch::kInt).dtype(), kInt32);
  EXPECT_EQ(torch::randperm(5, torch::kInt).dtype(), kInt32);
  EXPECT_EQ(values(torch::arange(3)), (Values{0, 1, 2}));
  EXPECT_EQ(values(torch::arange(1, 4, torch::kFloat)), (Values{1, 2, 3}));
  EXPECT_EQ(values(torch::arange(0, 10, 5)), (Values{0, 5}));
  EXPECT_EQ(torch::arange(0, 1, 0.5, torch::kDouble).dtype(), kFloat64);
  EXPECT_EQ(values(torch::linspace(0, 1, 3, torch::kDouble)), (Values{0, 0.5, 1}));
  EXPECT_EQ(values(torch::eye(2, torch::kInt)), (Values{1, 0, 0, 1}));
  EXPECT_EQ(torch::eye(2, 3).sizes(), (Shape{2, 3}));
}

TEST(LibTorchHabits, FactoriesLikeAnother) {
  const auto x = torch::ones({2, 3}, torch::kDouble);
  EXPECT_EQ(torch::zeros_like(x).dtype(), kFloat64);
  EXPECT_EQ(torch::zeros_like(x, torch::kInt).dtype(), kInt32);
  EXPECT_EQ(torch::rand_like(x).sizes(), x.sizes());
  EXPECT_EQ(torch::full_like(x, 3, torch::kLong).dtype(), kInt64);
  EXPECT_EQ(x.new_zeros({4}).dtype(), kFloat64);
  EXPECT_EQ(x.new_zeros({4}, torch::kInt).dtype(), kInt32);
  EXPECT_EQ(x.new_full({2}, 1).dtype(), kFloat64);
  EXPECT_EQ(torch::ones({2}, x.options()).dtype(), kFloat64);
  EXPECT_EQ(torch::zeros({5}, x.options().dtype(torch::kLong)).dtype(), kInt64);
  EXPECT_EQ(torch::empty(x.sizes(), x.options()).sizes(), x.sizes());
}

TEST(LibTorchHabits, OptionsByCall) {
  const auto options = torch::TensorOptions()
                           .dtype(torch::kFloat32)
                           .layout(torch::kStrided)
                           .device(torch::kCUDA, 1)
                           .requires_grad(true);
  EXPECT_EQ(options.dtype(), kFloat32);
  EXPECT_EQ(options.device(), Device("cuda:1"));
  EXPECT_TRUE(options.requires_grad());
  EXPECT_EQ(options.dtype(torch::kDouble).dtype(), kFloat64);
  EXPECT_EQ(options.dtype(torch::kDouble).device(), Device("cuda:1"));
  EXPECT_EQ(options.dtype(), kFloat32) << "a call changes a copy";
  EXPECT_EQ(options.device("cpu").device(), Device("cpu"));
  EXPECT_FALSE(options.requires_grad(false).requires_grad());
  EXPECT_EQ(torch::TensorOptions().dtype(), default_dtype());
  EXPECT_EQ(torch::TensorOptions().device(), Device("cpu"));
  EXPECT_EQ(torch::dtype(torch::kHalf).dtype(), kFloat16);
  EXPECT_EQ(torch::device(torch::kCUDA).dtype(torch::kHalf).device(), Device("cuda:0"));
  EXPECT_EQ(torch::device({torch::kCUDA, 1}).device(), Device("cuda:1"));
  EXPECT_TRUE(torch::requires_grad().dtype(torch::kDouble).requires_grad());
}

TEST(LibTorchHabits, OptionsByName) {
  const TensorOptions options{.dtype = kFloat64, .requires_grad = true};
  EXPECT_EQ(options.dtype, kFloat64);
  EXPECT_FALSE(options.device.has_value());
  TensorOptions changed = options;
  changed.dtype = kFloat32;
  changed.requires_grad = false;
  EXPECT_EQ(zeros({2}, changed).dtype(), kFloat32);
  EXPECT_FALSE(zeros({2}, changed).requires_grad());
  const TensorOptions copied{.dtype = options.dtype, .device = changed.device};
  EXPECT_EQ(copied.dtype.value_or(kInt8), kFloat64);
  EXPECT_EQ(zeros({2}, {kInt64}).dtype(), kInt64);
  EXPECT_EQ(zeros({2}, {}).dtype(), kFloat32);
  EXPECT_EQ(zeros({2}, {.dtype = kBool, .device = "cpu"}).dtype(), kBool);
  EXPECT_EQ(zeros({2}, TensorOptions{.dtype = kInt8}.requires_grad(false)).dtype(), kInt8);
}

TEST(LibTorchHabits, RequiresGrad) {
  EXPECT_TRUE(torch::ones({2}, torch::requires_grad()).requires_grad());
  EXPECT_TRUE(torch::ones({2}, torch::kFloat).requires_grad_().requires_grad());
  EXPECT_TRUE(torch::ones({2}).set_requires_grad(true).requires_grad());
  EXPECT_FALSE(torch::ones({2}).requires_grad());
  EXPECT_TRUE(torch::tensor({1.0, 2.0}, torch::requires_grad()).requires_grad());
  EXPECT_TRUE(torch::ones({2}, torch::requires_grad()).options().requires_grad());
}

TEST(LibTorchHabits, TensorsFromNumbers) {
  EXPECT_EQ(torch::tensor(3).dtype(), kInt64);
  EXPECT_EQ(torch::tensor(3.5).dtype(), kFloat32);
  EXPECT_EQ(torch::tensor(true).dtype(), kBool);
  EXPECT_EQ(torch::tensor({1, 2, 3}).sizes(), Shape{3});
  EXPECT_EQ(torch::tensor({{1, 2}, {3, 4}}).sizes(), (Shape{2, 2}));
  EXPECT_EQ(torch::tensor({{1, 2}, {3, 4}}, torch::kFloat).dtype(), kFloat32);
  EXPECT_EQ(values(torch::tensor({1.5, 2.0}, torch::kDouble)), (Values{1.5, 2}));
  EXPECT_EQ(torch::tensor({1, 2}, torch::dtype(torch::kInt)).dtype(), kInt32);
  EXPECT_EQ(torch::tensor(std::vector<float>{1, 2}).dtype(), kFloat32);
  EXPECT_EQ(torch::tensor(std::vector<double>{1, 2}).dtype(), kFloat32);
  EXPECT_EQ(torch::tensor(std::vector<int>{1, 2}).dtype(), kInt64);
  EXPECT_EQ(torch::tensor(std::vector<uint8_t>{1, 2}).dtype(), kUInt8);
  EXPECT_EQ(torch::tensor(std::vector<int16_t>{1, 2}).dtype(), kInt16);
  EXPECT_EQ(torch::tensor(std::vector<bool>{true, false}).dtype(), kBool);
  EXPECT_EQ(torch::tensor(std::vector<Half>{Half(1.0f)}).dtype(), kFloat16);
  EXPECT_EQ(torch::tensor(std::vector<double>{1, 2}, torch::kInt).dtype(), kInt32);
  EXPECT_EQ(torch::tensor(std::vector<std::vector<double>>{{1, 2}, {3, 4}}).sizes(), (Shape{2, 2}));
  EXPECT_EQ(torch::tensor(std::vector<std::vector<int>>{{1}, {2}}, torch::kFloat).dtype(),
            kFloat32);
  EXPECT_EQ(torch::tensor(std::vector<std::vector<bool>>{{true}, {false}}).dtype(), kBool);
  const std::array<float, 3> numbers{1, 2, 3};
  EXPECT_EQ(values(torch::tensor(numbers)), (Values{1, 2, 3}));
  EXPECT_EQ(values(torch::tensor(std::span<const float>(numbers))), (Values{1, 2, 3}));
  EXPECT_EQ(values(torch::tensor(std::span(numbers).first(2))), (Values{1, 2}));
  EXPECT_EQ(torch::tensor(std::array<std::array<int, 2>, 3>{}).sizes(), (Shape{3, 2}));
  const double plain[] = {1, 2};
  EXPECT_EQ(values(torch::tensor(plain, torch::kDouble)), (Values{1, 2}));
  EXPECT_EQ(values(torch::tensor(torch::zeros({2, 3}).sizes())), (Values{2, 3}));
  EXPECT_EQ(torch::tensor(std::vector<float>{}).sizes(), Shape{0});
}

TEST(LibTorchHabits, SmallNumbersKeepTheirType) {
  EXPECT_EQ(torch::tensor(uint8_t{3}).dtype(), kUInt8);
  EXPECT_EQ(torch::tensor(int8_t{-3}).dtype(), kInt8);
  EXPECT_EQ(torch::tensor(int16_t{3}).dtype(), kInt16);
  EXPECT_EQ(torch::tensor(Half(3.0f)).dtype(), kFloat16);
  EXPECT_EQ(torch::tensor(BFloat16(3.0f)).dtype(), kBFloat16);
  EXPECT_EQ(torch::tensor({uint8_t{3}, uint8_t{4}}).dtype(), kUInt8);
  EXPECT_EQ(torch::tensor({{int16_t{3}}, {int16_t{4}}}).dtype(), kInt16);
  EXPECT_EQ(values(torch::tensor({int8_t{3}, int8_t{-4}})), (Values{3, -4}));
  EXPECT_EQ(torch::tensor({NestedList(uint8_t{3}), NestedList(4)}).dtype(), kInt64);
  EXPECT_EQ(torch::tensor(uint8_t{3}, torch::kFloat).dtype(), kFloat32);
}

TEST(LibTorchHabits, FromBlob) {
  std::vector<float> data{1, 2, 3, 4, 5, 6};
  const auto x = torch::from_blob(data.data(), {2, 3});
  x[0][0] = 10;
  EXPECT_EQ(data[0], 10);
  int32_t integers[] = {1, 2, 3};
  EXPECT_EQ(torch::from_blob(integers, {3}, torch::kInt).dtype(), kInt32);
  EXPECT_EQ(torch::from_blob(integers, {3}, torch::TensorOptions().dtype(torch::kInt32)).dtype(),
            kInt32);
  EXPECT_EQ(values(torch::from_blob(data.data(), {3, 2}, {1, 3})), (Values{10, 4, 2, 5, 3, 6}));
  EXPECT_EQ(values(torch::from_blob(data.data(), {2}, {4}, torch::kFloat)), (Values{10, 5}));
  int freed = 0;
  {
    const auto y = torch::from_blob(data.data(), {6}, [&](void*) { ++freed; });
    const auto z = torch::from_blob(
        data.data(), {2}, {3}, [&](void*) { ++freed; }, torch::kFloat);
    EXPECT_EQ(values(z), (Values{10, 4}));
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 2);
  EXPECT_TRUE(contains(error_of([&] {
                         torch::from_blob(data.data(), {2}, {1, 1});
                       }),
                       "from_blob: 1 sizes but 2 strides"));
  EXPECT_TRUE(contains(error_of([&] { torch::from_blob(data.data(), {2}, {-1}); }),
                       "from_blob: strides must not be negative"));
}

TEST(LibTorchHabits, FromConstBlob) {
  static const float data[] = {1, 2, 3, 4};
  const auto x = torch::from_blob(data, {2, 2});
  EXPECT_EQ(values(x + 1), (Values{2, 3, 4, 5}));
  EXPECT_EQ(values(torch::from_blob(data, {2, 2}, {1, 2})), (Values{1, 3, 2, 4}));
  EXPECT_TRUE(contains(error_of([&] { x.add_(1); }), "add_: the tensor wraps const memory"));
  EXPECT_TRUE(contains(error_of([&] { x[0] = 5; }), "wraps const memory"));
  EXPECT_TRUE(contains(error_of([&] { x.index_put_({0}, 5); }), "wraps const memory"));
  EXPECT_EQ(values(x.clone().add_(1)), (Values{2, 3, 4, 5}));
}

TEST(LibTorchHabits, Printing) {
  EXPECT_EQ(printed(torch::zeros({2, 3}).sizes()), "[2, 3]");
  EXPECT_EQ(printed(torch::zeros({2, 3}).strides()), "[3, 1]");
  EXPECT_EQ(printed(torch::zeros({}).sizes()), "[]");
  EXPECT_EQ(printed(torch::kFloat), "float32");
  EXPECT_EQ(printed(torch::zeros({2}).dtype()), "float32");
  EXPECT_EQ(printed(torch::Device("cuda:1")), "cuda:1");
  EXPECT_EQ(printed(torch::zeros({2}).device()), "cpu");
  EXPECT_EQ(printed(torch::kCUDA), "cuda");
  EXPECT_EQ(printed(torch::Scalar(3)), "3");
  EXPECT_EQ(printed(torch::Scalar(0.5)), "0.5");
  EXPECT_EQ(printed(torch::Scalar(true)), "true");
  EXPECT_EQ(printed(torch::tensor(7).item()), "7");
  EXPECT_EQ(printed(torch::tensor({1, 2})), "tensor([1, 2])");
  EXPECT_EQ(printed(torch::zeros({1}, torch::kDouble).options()),
            "TensorOptions(dtype=float64, device=cpu, requires_grad=false)");
  EXPECT_EQ(printed(torch::TensorOptions()), "TensorOptions(requires_grad=false)");
  EXPECT_EQ(to_string(torch::kInt), "int32");
  EXPECT_EQ(to_string(torch::Scalar(2)), "2");
}

TEST(LibTorchHabits, Conversion) {
  const auto x = torch::tensor({1.5, 2.5});
  const auto other = torch::ones({1}, torch::kLong);
  EXPECT_EQ(x.to(torch::kInt).dtype(), kInt32);
  EXPECT_EQ(x.to(torch::kCPU, torch::kDouble).dtype(), kFloat64);
  EXPECT_EQ(x.to(torch::kDouble, torch::kCPU).dtype(), kFloat64);
  EXPECT_EQ(x.to(torch::kCPU).device(), Device("cpu"));
  EXPECT_EQ(x.to("cpu").device(), Device("cpu"));
  EXPECT_EQ(x.to("meta").device(), Device("meta"));
  EXPECT_EQ(x.to(torch::Device(torch::kCPU), torch::kHalf).dtype(), kFloat16);
  EXPECT_EQ(x.to(other).dtype(), kInt64);
  EXPECT_EQ(x.to(other.options()).dtype(), kInt64);
  EXPECT_EQ(x.to(torch::dtype(torch::kShort)).dtype(), kInt16);
  EXPECT_EQ(x.to({.dtype = kInt8}).dtype(), kInt8);
  EXPECT_TRUE(x.to(torch::kFloat).is_same(x)) << "nothing to do";
  EXPECT_EQ(x.type_as(other).dtype(), kInt64);
  EXPECT_TRUE(contains(error_of([&] { x.to(torch::requires_grad()); }), "to: "));
}

TEST(LibTorchHabits, Names) {
  EXPECT_EQ(torch::kByte, kUInt8);
  EXPECT_EQ(torch::kChar, kInt8);
  EXPECT_EQ(torch::kShort, kInt16);
  EXPECT_EQ(torch::kInt, kInt32);
  EXPECT_EQ(torch::kHalf, kFloat16);
  EXPECT_EQ(torch::kDouble, kFloat64);
  const torch::Dtype dtype = torch::kFloat;
  const torch::ScalarType type = torch::zeros({1}).scalar_type();
  EXPECT_EQ(dtype, type);
  const torch::IntArrayRef sizes = {2, 3};
  EXPECT_EQ(torch::zeros(sizes).sizes(), sizes);
}

TEST(LibTorchHabits, DefaultDtype) {
  EXPECT_EQ(torch::get_default_dtype(), kFloat32);
  torch::set_default_dtype(torch::kDouble);
  EXPECT_EQ(torch::zeros({1}).dtype(), kFloat64);
  torch::set_default_dtype(torch::kFloat);
  EXPECT_EQ(torch::zeros({1}).dtype(), kFloat32);
}

TEST(LibTorchHabits, Queries) {
  const auto x = torch::zeros({2, 3, 4});
  EXPECT_EQ(x.sizes()[0], 2);
  EXPECT_EQ(x.sizes().size(), 3);
  EXPECT_EQ(x.sizes().vec(), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(x.sizes(), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(x.size(-1), 4);
  EXPECT_EQ(x.stride(0), 12);
  EXPECT_EQ(x.dim(), 3);
  EXPECT_EQ(x.ndimension(), 3);
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.itemsize(), 4u);
  EXPECT_EQ(x.element_size(), 4u);
  EXPECT_EQ(x.nbytes(), 96u);
  EXPECT_EQ(x.layout(), torch::kStrided);
  EXPECT_TRUE(x.defined());
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_FALSE(x.is_cuda());
  EXPECT_TRUE(x.device().is_cpu());
  EXPECT_EQ(x.get_device(), 0);
  EXPECT_TRUE(x.dtype() == torch::kFloat32);
  EXPECT_FALSE(torch::Tensor().defined());
}

TEST(LibTorchHabits, ScalarsAndItems) {
  EXPECT_EQ(torch::tensor(2.5).item<float>(), 2.5f);
  EXPECT_EQ(torch::tensor(2.5).item<double>(), 2.5);
  EXPECT_EQ(torch::tensor({3}).item<int>(), 3);
  EXPECT_EQ(torch::tensor(true).item<bool>(), true);
  EXPECT_EQ(torch::tensor(2.5).item().toFloat(), 2.5f);
  EXPECT_EQ(torch::tensor(2.5).item().toDouble(), 2.5);
  EXPECT_EQ(torch::tensor(3).item().toInt(), 3);
  EXPECT_EQ(torch::tensor(3).item().toLong(), 3);
  EXPECT_TRUE(torch::tensor(true).item().toBool());
  EXPECT_EQ(torch::tensor(3).item().to<int64_t>(), 3);
  EXPECT_TRUE(torch::Scalar(1.5).isFloatingPoint());
  EXPECT_TRUE(torch::Scalar(1).isIntegral(false));
  EXPECT_FALSE(torch::Scalar(true).isIntegral(false));
  EXPECT_TRUE(torch::Scalar(true).isIntegral(true));
  EXPECT_TRUE(torch::Scalar(true).isBoolean());
}

}  // namespace
}  // namespace tensora::testing
