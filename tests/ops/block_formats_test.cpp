// The quantized formats against vectors that the formats' own reference code produced.

#include <cmath>
#include <limits>
#include <vector>

#include "../helpers.h"
#include "tensora/io/checksum.h"
#include "tensora/ops/quant/blocks.h"

namespace tensora::testing {
namespace {

template <class Block>
uint32_t crc_of(const std::vector<Block>& values) {
  return io::crc32(
      {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(Block)});
}

struct Decoded {
  DType dtype;
  float first[4], last_of_each[2];
  double sum, squares;
  uint32_t crc;  // of the float32 numbers
};
// Of two blocks whose byte i is 37 i + 11, with scales of 0.5 and offsets of 0.25.
const Decoded kDecoded[] = {
    {kQ4_0, {-1.5, 1, 3.5, -2}, {0, -3.5}, -16, 345.5, 0x8eb456b5},
    {kQ4_1, {7.75, 2.25, 4.75, 7.25}, {6.25, 5.25}, 263, 1406, 0x70853198},
    {kQ5_0, {4.5, -1, 1.5, -4}, {0.5, 2}, -2, 1385, 0xaaa82f32},
    {kQ5_1, {9.75, 12.25, 14.75, 9.25}, {2.75, 14.75}, 509, 5473, 0x2405bd37},
    {kQ8_0, {42.5, 61, -48.5, -30}, {-24, -35}, -144, 93640, 0x05f477d2},
    {kQ2_K, {16.5, 0, 5.5, 11}, {2.25, 8.75}, 2014, 26857.25, 0xbd2f3984},
    {kQ3_K, {40.5, -54, 13.5, -27}, {21, 3}, 397.5, 274743.75, 0x15f84dcb},
    {kQ4_K, {157.75, -12.75, 64.75, 142.25}, {24.25, 212}, 62600, 13789813, 0x166ef9bc},
    {kQ5_K, {405.75, -12.75, 312.75, 142.25}, {54.25, 129.5}, 108568, 46792407, 0x7382fc76},
    {kQ6_K, {-715.5, 848, 291.5, -265}, {-30, -800}, 2720, 261468684, 0xa0bc4821},
    {kIQ4_NL, {-17.5, 12.5, 56.5, -24.5}, {0.5, -52}, -180.5, 72987.25, 0xe5db50fe},
    {kIQ4_XS, {32.5, -0.5, -34.5, 41.5}, {-8, 682.5}, -3661, 159804102, 0x86b1505b},
};

template <class Block>
std::vector<Block> patterned_blocks() {
  std::vector<Block> blocks(2);
  auto* bytes = reinterpret_cast<uint8_t*>(blocks.data());
  for (size_t i = 0; i < 2 * sizeof(Block); ++i) bytes[i] = static_cast<uint8_t>(37 * i + 11);
  for (Block& block : blocks) {
    if constexpr (requires { block.scale; }) block.scale = Half(0.5f);
    if constexpr (requires { block.low; }) block.low = Half(0.25f);
    if constexpr (requires { block.groups; })
      block.groups.scale = Half(0.5f), block.groups.low = Half(0.25f);
  }
  return blocks;
}

TEST(BlockFormats, decode_as_the_reference_does) {
  for (const Decoded& golden : kDecoded) {
    SCOPED_TRACE(concat(golden.dtype));
    visit_block(golden.dtype, [&]<class Block>() {
      std::vector<Block> blocks = patterned_blocks<Block>();
      const Tensor numbers =
          dequantize(from_blob(blocks.data(), {2 * Block::kNumbers}, {.dtype = Block::kDType}));
      const auto* x = static_cast<const float*>(numbers.data_ptr());
      double sum = 0, squares = 0;
      std::vector<float> all(x, x + numbers.numel());
      for (float number : all) {
        sum += number;
        squares += double{number} * number;
      }
      for (int i = 0; i < 4; ++i) EXPECT_EQ(x[i], golden.first[i]);
      for (int b = 0; b < 2; ++b)
        EXPECT_EQ(x[(b + 1) * Block::kNumbers - 1], golden.last_of_each[b]);
      EXPECT_EQ(sum, golden.sum);
      EXPECT_EQ(squares, golden.squares);
      EXPECT_EQ(crc_of(all), golden.crc);
    });
  }
}

struct Encoded {
  DType dtype;
  uint64_t first_bytes;  // big-endian, as they are printed; 0 where encoders are free to differ
  uint32_t crc;
  double error;  // the root of the sum of squares, by the count
};
const Encoded kEncoded[] = {
    {kQ4_0, 0x33b4f0a43b0f5dc5, 0x6121c3cf, 0.00433},
    {kQ4_1, 0x44349abf0f5cc4f0, 0x2296ea6e, 0.00437},
    {kQ5_0, 0x33b01c87e338e037, 0x00465017, 0.00238},
    {kQ5_1, 0x21309abfe3781cc7, 0xc9a617ac, 0.00216},
    {kQ8_0, 0x3c247f47d48eb728, 0x4f1cea4c, 0.00029},
    {kQ2_K, 0, 0, 0.0186},
    {kQ3_K, 0, 0, 0.0100},
    {kQ4_K, 0, 0, 0.0038},
    {kQ5_K, 0, 0, 0.0021},
    {kQ6_K, 0, 0, 0.00105},
    {kIQ4_NL, 0, 0, 0.005},
    {kIQ4_XS, 0, 0, 0.005},
    {kMXFP4, 0, 0, 0.0076},
    {kNF4, 0, 0, 0.0086},
};

TEST(BlockFormats, encode_as_well_as_the_reference_does) {
  Tensor x = empty({256});
  auto* numbers = static_cast<float*>(x.data_ptr());
  for (int i = 0; i < 256; ++i)
    numbers[i] = static_cast<float>(0.1 + 2 * std::cos(static_cast<float>(i)));
  for (const Encoded& golden : kEncoded) {
    SCOPED_TRACE(concat(golden.dtype));
    const Tensor q = quantize(x, golden.dtype), back = dequantize(q);
    double squares = 0;
    for (int i = 0; i < 256; ++i) {
      const double error = static_cast<const float*>(back.data_ptr())[i] - double{numbers[i]};
      squares += error * error;
    }
    EXPECT_LE(std::sqrt(squares) / 256, golden.error + 1e-5);
    if (golden.crc == 0) continue;
    const auto* bytes = static_cast<const uint8_t*>(q.data_ptr());
    uint64_t first = 0;
    for (int i = 0; i < 8; ++i) first = first << 8 | bytes[i];
    EXPECT_EQ(first, golden.first_bytes);
    EXPECT_EQ(crc_of(std::vector<uint8_t>(bytes, bytes + q.nbytes())), golden.crc);
  }
}

TEST(BlockFormats, encode_again_what_they_decoded) {
  // A format whose numbers are exact multiples finds them again; only the search may move scales.
  for (DType dtype : {kQ4_0, kQ5_0, kQ8_0, kMXFP4, kNF4}) {
    const Tensor q = quantize(rand({8, 256}) - 0.5, dtype);
    EXPECT_TRUE(allclose(dequantize(quantize(dequantize(q), dtype)), dequantize(q), 1e-2, 1e-3))
        << concat(dtype);
  }
}

TEST(BlockFormats, take_any_number) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DTypeInfo& info : dtype_info_table) {
    if (info.category != Category::quantized) continue;
    SCOPED_TRACE(std::string(info.name));
    for (float value : {0.0f, -0.0f, 1e-45f, 1e-38f, -1e-10f, 1.0f, -3.0f, 49152.0f}) {
      const Tensor back = dequantize(quantize(full({256}, value), info.dtype));
      EXPECT_TRUE(allclose(back, full({256}, value), 0.07, 1e-6)) << value;
    }
    for (float value : {kInfinity, -kInfinity, std::nanf("")}) {
      Tensor x = ones({256});
      x[17] = value;
      const Tensor back = dequantize(quantize(x, info.dtype));
      EXPECT_FALSE(std::isfinite(static_cast<const float*>(back.data_ptr())[17])) << value;
    }
  }
}

}  // namespace
}  // namespace tensora::testing
