#pragma once

#include <cstdint>

#include "tensora/base/half.h"
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

/// The beginning of Q4_K and Q5_K, blocks of 256 numbers in groups of 32 with scales and offsets of
/// their own: x = scale * group_scale * level - low * group_low.
struct SixBitGroups {
  static constexpr int kNumbers = 256;
  static constexpr int kGroup = 32;
  Half scale, low;
  SixBitScales scales;

  TENSORA_HD float number(int i, int level) const {
    const int group = i / kGroup;
    return static_cast<float>(scale) * static_cast<float>(scales.scale(group)) *
               static_cast<float>(level) -
           static_cast<float>(low) * static_cast<float>(scales.low(group));
  }
  template <class Code>
  TENSORA_HD void set(const Code& code) {
    scale = code.scale;
    low = code.low;
    scales.set(code.scales, code.lows);
  }
};

/// The low four bits of 256 levels. Per 64 of them 32 bytes: the first 32 in the low halves, then
/// the high ones.
struct FourBitLevels {
  uint8_t bytes[128];

  TENSORA_HD int level(int i) const {
    return bytes[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
  }
  TENSORA_HD void set(const uint8_t* levels) {
    for (int i = 0; i < 128; ++i) {
      const uint8_t* two = levels + i / 32 * 64 + i % 32;
      bytes[i] = static_cast<uint8_t>((two[0] & 15) | (two[32] & 15) << 4);
    }
  }
};

}  // namespace tensora
