#include <cmath>

#include "tensora/ops/quant/blocks.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

// Q8_0 by its definition, in float as the format is.
Array through_q8_0(const Array& x) {
  Array out = x;
  for (int64_t block = 0; block < x.numel(); block += 32) {
    float largest = 0;
    for (int64_t i = block; i < block + 32; ++i)
      largest = std::max(largest, std::abs(static_cast<float>(x[i])));
    const float scale = largest / 127.0f;
    for (int64_t i = block; i < block + 32; ++i) {
      const float q = scale == 0 ? 0 : std::round(static_cast<float>(x[i]) * (1.0f / scale));
      out[i] = static_cast<float>(Half(scale)) * q;
    }
  }
  return out;
}

// Any format by its own definition on the host; tests/ops/block_formats_test.cpp has its goldens.
Array through(DType dtype, const Array& x) {
  Array out = x;
  visit_block(dtype, [&]<class Block>() {
    for (int64_t begin = 0; begin < x.numel(); begin += Block::kNumbers) {
      float numbers[Block::kNumbers];
      for (int i = 0; i < Block::kNumbers; ++i) numbers[i] = static_cast<float>(x[begin + i]);
      Block block;
      block.encode(numbers);
      for (int i = 0; i < Block::kNumbers; ++i) out[begin + i] = block.number(i);
    }
  });
  return out;
}

// The door refuses them, whatever the device.
void add_errors(Cases& cases) {
  const auto q = [] { return quantize(zeros({2, 64}), kQ8_0); };
  cases.error("quantize", "no whole blocks", "must consist of blocks of 32", [] {
    quantize(zeros({2, 33}, {.device = device()}), kQ8_0);
  });
  cases.error("quantize", "integers", "quantize: not supported for int64",
              [] { quantize(zeros({32}, {.dtype = kInt64, .device = device()}), kQ8_0); });
  cases.error("quantize", "to a plain dtype", "expected a quantized dtype, got int8",
              [] { quantize(zeros({32}, {.device = device()}), kInt8); });
  cases.error("dequantize", "a plain tensor", "expected a quantized tensor, got float32",
              [] { dequantize(zeros({32}, {.device = device()})); });
  cases.error("add", "quantized", "add: not supported for q8_0; dequantize it",
              [=] { add(q(), q()); });
  cases.error("matmul", "quantized", "matmul: not supported for q8_0; dequantize it", [=] {
    matmul(q(), quantize(zeros({64, 64}), kQ8_0));
  });
  cases.error("cast", "quantized", "use quantize or dequantize", [=] { to(q(), kFloat32); });
  cases.error("fill", "quantized", "fill: not supported for q8_0", [=] { zero_(q()); });
  cases.error("slice", "within a block", "consists of blocks of 32 numbers",
              [=] { narrow(q(), 1, 16, 32); });
  cases.error("permute", "across blocks", "consists of blocks of 32 numbers",
              [=] { transpose(q(), 0, 1); });
}

}  // namespace

void quantize_cases(Cases& cases) {
  const std::map<Mode, std::string> flat = {{Mode::grad, "steps have no gradient"}};
  for (const Shape& sizes :
       {Shape{32}, Shape{3, 64}, Shape{0, 32}, Shape{2, 5, 96}, Shape{700, 32}})
    for (const char* op : {"quantize", "dequantize"})
      cases.add({.op = op,
                 .name = concat("q8_0 ", sizes),
                 .inputs = {{sizes}},
                 .run = [](In x) { return one(dequantize(quantize(x[0], kQ8_0), x[0].dtype())); },
                 .reference = [](Arrays x) { return one(through_q8_0(x[0])); },
                 .opt_out = flat});
  for (const DTypeInfo& info : dtype_info_table) {
    if (info.category != Category::quantized) continue;
    const DType dtype = info.dtype;
    const int64_t block = info.block_numbers;
    for (const Shape& sizes :
         {Shape{block}, Shape{3, 2 * block}, Shape{0, block}, Shape{70, block}})
      for (const char* op : {"quantize", "dequantize"})
        cases.add(
            {.op = op,
             .name = concat("any ", dtype, " ", sizes),
             .inputs = {{sizes}},
             .run = [=](In x) { return one(dequantize(quantize(x[0], dtype), x[0].dtype())); },
             .reference = [=](Arrays x) { return one(through(dtype, x[0])); },
             .opt_out = flat});
  }
  cases.add({.op = "dequantize",
             .name = "rows of a larger tensor",
             .inputs = {{{5, 64}}},
             .run =
                 [](In x) {
                   const Tensor q = quantize(x[0], kQ8_0);
                   const Tensor part = slice(q, 0, 0, 5, 2);
                   return Out{dequantize(part, x[0].dtype()),
                              dequantize(narrow(q, 1, 32, 32), x[0].dtype()),
                              dequantize(clone(part)[1], x[0].dtype())};
                 },
             .reference =
                 [](Arrays x) {
                   const Array all = through_q8_0(x[0]);
                   Array rows({3, 64}), half({5, 32}), row(Shape{64});
                   for (int64_t i = 0; i < 64; ++i) {
                     for (int64_t r = 0; r < 3; ++r) rows[r * 64 + i] = all[2 * r * 64 + i];
                     for (int64_t r = 0; r < 5 && i >= 32; ++r)
                       half[r * 32 + i - 32] = all[r * 64 + i];
                     row[i] = all[2 * 64 + i];
                   }
                   return ArrayList{rows, half, row};
                 },
             .opt_out = flat});
  add_errors(cases);
}

}  // namespace tensora::suite
