#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tensora {

/// The SHA-256 of bytes that come part by part.
class Sha256 {
 public:
  void update(std::span<const uint8_t> bytes);
  void update(std::string_view text) {
    update({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  /// Of everything so far, as 64 hexadecimal digits; more may follow.
  std::string hex() const;

 private:
  void take_block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_ = {};  // what does not fill a block yet
  uint64_t count_ = 0;
};

}  // namespace tensora
