#include "tensora/io/checksum.h"

#include <array>

namespace tensora::io {
namespace {

// Sixteen bytes are looked up at once: table k says what a byte does to the remainder when k more
// bytes follow it.
constexpr int kStep = 16;
using Table = std::array<std::array<uint32_t, 256>, kStep>;

constexpr Table make_table() {
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1) ^ ((remainder & 1) ? 0xEDB88320u : 0u);
    table[0][byte] = remainder;
  }
  for (size_t k = 1; k < kStep; ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      table[k][byte] = (table[k - 1][byte] >> 8) ^ table[0][table[k - 1][byte] & 255];
  return table;
}
constexpr Table kTable = make_table();

}  // namespace

uint32_t crc32(ConstBytes bytes, uint32_t start) {
  uint32_t remainder = ~start;
  const uint8_t* data = bytes.data();
  size_t left = bytes.size();
  for (; left >= kStep; left -= kStep, data += kStep) {
    uint32_t first;
    std::memcpy(&first, data, sizeof(first));
    first ^= remainder;
    remainder = kTable[15][first & 255] ^ kTable[14][(first >> 8) & 255] ^
                kTable[13][(first >> 16) & 255] ^ kTable[12][first >> 24];
    for (size_t i = 4; i < kStep; ++i) remainder ^= kTable[kStep - 1 - i][data[i]];
  }
  for (; left > 0; --left, ++data)
    remainder = (remainder >> 8) ^ kTable[0][(remainder ^ *data) & 255];
  return ~remainder;
}

}  // namespace tensora::io
