#pragma once

#include <cstdint>

#include "tensora/base/host_device.h"

namespace tensora {

/// The eight scales and eight offsets of Q4_K and Q5_K, six bits each in twelve bytes: of the first
/// four groups they fill the low six bits of bytes 0 to 3 and 4 to 7; of the others the low four
/// bits are in bytes 8 to 11, and the high two in what the first eight bytes leave free.
struct SixBitScales {
  uint8_t bytes[12];

  TENSORA_HD int scale(int j) const {
    return j < 4 ? bytes[j] & 63 : (bytes[j + 4] & 15) | bytes[j - 4] >> 6 << 4;
  }
  TENSORA_HD int low(int j) const {
    return j < 4 ? bytes[j + 4] & 63 : bytes[j + 4] >> 4 | bytes[j] >> 6 << 4;
  }

  TENSORA_HD void set(const uint8_t* scales, const uint8_t* lows) {
    for (int j = 0; j < 4; ++j) {
      bytes[j] = static_cast<uint8_t>(scales[j] | scales[j + 4] >> 4 << 6);
      bytes[j + 4] = static_cast<uint8_t>(lows[j] | lows[j + 4] >> 4 << 6);
      bytes[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | (lows[j + 4] & 15) << 4);
    }
  }
};

}  // namespace tensora
