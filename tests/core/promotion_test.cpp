#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::contains, testing::error_of;

// PyTorch's promote_types of the dtypes that compute, rows and columns in this order: b u8 i8 i16
// i32 i64 f16 bf16 f32 f64 c64 c128.
constexpr int kComputing = 12;
constexpr std::string_view kTable[kComputing][kComputing] = {
    {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
     "float64", "complex64", "complex128"},
    {"uint8", "uint8", "int16", "int16", "int32", "int64", "float16", "bfloat16", "float32",
     "float64", "complex64", "complex128"},
    {"int8", "int16", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
     "float64", "complex64", "complex128"},
    {"int16", "int16", "int16", "int16", "int32", "int64", "float16", "bfloat16", "float32",
     "float64", "complex64", "complex128"},
    {"int32", "int32", "int32", "int32", "int32", "int64", "float16", "bfloat16", "float32",
     "float64", "complex64", "complex128"},
    {"int64", "int64", "int64", "int64", "int64", "int64", "float16", "bfloat16", "float32",
     "float64", "complex64", "complex128"},
    {"float16", "float16", "float16", "float16", "float16", "float16", "float16", "float32",
     "float32", "float64", "complex64", "complex128"},
    {"bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "float32", "bfloat16",
     "float32", "float64", "complex64", "complex128"},
    {"float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32",
     "float32", "float64", "complex64", "complex128"},
    {"float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64",
     "float64", "float64", "complex128", "complex128"},
    {"complex64", "complex64", "complex64", "complex64", "complex64", "complex64", "complex64",
     "complex64", "complex64", "complex128", "complex64", "complex128"},
    {"complex128", "complex128", "complex128", "complex128", "complex128", "complex128",
     "complex128", "complex128", "complex128", "complex128", "complex128", "complex128"},
};

TEST(Promotion, FullTable) {
  for (int a = 0; a < kComputing; ++a)
    for (int b = 0; b < kComputing; ++b) {
      const DType x = static_cast<DType>(a), y = static_cast<DType>(b);
      EXPECT_EQ(name(promote_types(x, y)), kTable[a][b]) << name(x) << " with " << name(y);
      EXPECT_EQ(promote_types(x, y), promote_types(y, x)) << name(x) << " with " << name(y);
    }
}

TEST(Promotion, WhatOnlyStoresMeetsNothingElse) {
  for (const DTypeInfo& info : dtype_info_table) {
    if (info.computes) continue;
    EXPECT_EQ(promote_types(info.dtype, info.dtype), info.dtype);
    for (const DTypeInfo& other : dtype_info_table) {
      if (other.dtype == info.dtype) continue;
      if (is_wide_unsigned(info.dtype) && other.computes && is_differentiable(other.dtype)) {
        EXPECT_EQ(promote_types(info.dtype, other.dtype), other.dtype);
        continue;
      }
      EXPECT_TRUE(contains(error_of([&] { promote_types(info.dtype, other.dtype); }),
                           "there is no common dtype"));
    }
  }
}

TEST(Promotion, OfTensorsWithDims) {
  for (int a = 0; a < kComputing; ++a)
    for (int b = 0; b < kComputing; ++b) {
      const Tensor x = ones({2}, {.dtype = static_cast<DType>(a)});
      const Tensor y = ones({2}, {.dtype = static_cast<DType>(b)});
      EXPECT_EQ(name((x + y).dtype()), kTable[a][b]) << name(x.dtype()) << " + " << name(y.dtype());
    }
}

TEST(Promotion, ZeroDimTensorsAndNumbersYieldWithinTheirCategory) {
  const Tensor i8 = ones({2}, {.dtype = kInt8}), f16 = ones({2}, {.dtype = kFloat16});
  EXPECT_EQ((i8 + full({}, 1, {.dtype = kInt64})).dtype(), kInt8);
  EXPECT_EQ((f16 + full({}, 1., {.dtype = kFloat64})).dtype(), kFloat16);
  EXPECT_EQ((i8 + full({}, 1., {.dtype = kFloat64})).dtype(), kFloat64);
  EXPECT_EQ((i8 + full({}, 1., {.dtype = kFloat16})).dtype(), kFloat16);
  EXPECT_EQ((i8 + 1).dtype(), kInt8);
  EXPECT_EQ((i8 + 0.5).dtype(), default_dtype());
  EXPECT_EQ((f16 + 0.5).dtype(), kFloat16);
  EXPECT_EQ((ones({2}, {.dtype = kBool}) + 1).dtype(), kInt64);
  EXPECT_EQ((full({}, 1, {.dtype = kInt32}) + full({}, 1, {.dtype = kInt64})).dtype(), kInt64);
  const Complex<double> i(0, 1);
  EXPECT_EQ((i8 + i).dtype(), kComplex64);
  EXPECT_EQ((ones({2}) + i).dtype(), kComplex64);
  EXPECT_EQ((ones({2}, {.dtype = kFloat64}) + i).dtype(), kComplex128);
  EXPECT_EQ((ones({2}, {.dtype = kComplex64}) + full({}, 1., {.dtype = kFloat64})).dtype(),
            kComplex64);
  EXPECT_EQ((ones({2}, {.dtype = kFloat64}) + full({}, i, {.dtype = kComplex64})).dtype(),
            kComplex128);
  EXPECT_EQ((ones({2}) + full({}, i, {.dtype = kComplex128})).dtype(), kComplex64);
  EXPECT_EQ((i8 + full({}, i, {.dtype = kComplex128})).dtype(), kComplex128);
  // PyTorch gives complex32, which is not among our dtypes.
  EXPECT_EQ((f16 + i).dtype(), kComplex64);
}

TEST(Promotion, DefaultDtype) {
  EXPECT_EQ(default_dtype(), kFloat32);
  set_default_dtype(kFloat64);
  EXPECT_EQ(ones({1}).dtype(), kFloat64);
  EXPECT_EQ((ones({1}, {.dtype = kInt32}) + 0.5).dtype(), kFloat64);
  set_default_dtype(kFloat32);
  EXPECT_TRUE(contains(error_of([] { set_default_dtype(kInt32); }), "floating-point"));
}

TEST(DType, NamesRoundTrip) {
  for (int i = 0; i < kDTypeCount; ++i)
    EXPECT_EQ(parse_dtype(name(static_cast<DType>(i))), static_cast<DType>(i));
  EXPECT_EQ(parse_dtype("long"), kInt64);
  EXPECT_EQ(parse_dtype("half"), kFloat16);
  EXPECT_EQ(parse_dtype("cdouble"), kComplex128);
  EXPECT_TRUE(contains(error_of([] { parse_dtype("float8"); }), "unknown name 'float8'"));
}

TEST(Device, Parsing) {
  EXPECT_EQ(Device("cpu"), Device(DeviceType::cpu));
  EXPECT_EQ(Device("cuda"), Device(DeviceType::cuda, 0));
  EXPECT_EQ(Device("cuda:1"), Device(DeviceType::cuda, 1));
  EXPECT_EQ(Device("meta"), Device(DeviceType::meta));
  EXPECT_EQ(to_string(Device("cuda:7")), "cuda:7");
  EXPECT_EQ(to_string(Device("cpu")), "cpu");
}

TEST(Device, ParsingMistakes) {
  for (const char* text : {"", "gpu", "CPU", "cud", "cuda0", " cpu", ":0"})
    EXPECT_TRUE(contains(error_of([&] { Device device(text); }), "unknown kind")) << text;
  for (const char* text : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:128", "cuda:99999999999"})
    EXPECT_TRUE(contains(error_of([&] { Device device(text); }), "expected a number")) << text;
}

TEST(Device, BeyondTheLast) {
  EXPECT_TRUE(contains(error_of([] { require_device(Device(DeviceType::cpu, 3)); }), "only 1"));
}

}  // namespace
}  // namespace tensora
