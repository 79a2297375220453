#include "tensora/base/sha256.h"

#include <algorithm>
#include <bit>

namespace tensora {

namespace {

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const uint8_t* from) {
  return uint32_t{from[0]} << 24 | uint32_t{from[1]} << 16 | uint32_t{from[2]} << 8 | from[3];
}

}  // namespace

void Sha256::take_block(const uint8_t* block) {
  uint32_t words[64];
  for (int i = 0; i < 16; ++i) words[i] = big_endian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice +
                           kRounds[i] + words[i];
    const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const uint32_t added[] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += added[i];
}

void Sha256::update(std::span<const uint8_t> bytes) {
  size_t filled = count_ % 64;
  count_ += bytes.size();
  if (filled > 0) {
    const size_t part = std::min(bytes.size(), 64 - filled);
    std::copy_n(bytes.data(), part, rest_.data() + filled);
    bytes = bytes.subspan(part);
    if (filled + part < 64) return;
    take_block(rest_.data());
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) take_block(bytes.data());
  std::copy_n(bytes.data(), bytes.size(), rest_.data());
}

std::string Sha256::hex() const {
  Sha256 last = *this;
  const uint64_t bits = count_ * 8;
  const uint8_t one = 0x80, zero = 0;
  last.update({&one, 1});
  while (last.count_ % 64 != 56) last.update({&zero, 1});
  for (int shift = 56; shift >= 0; shift -= 8) {
    const auto byte = static_cast<uint8_t>(bits >> shift);
    last.update({&byte, 1});
  }
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint32_t word : last.state_)
    for (int shift = 28; shift >= 0; shift -= 4) text += digits[(word >> shift) & 15];
  return text;
}

}  // namespace tensora
