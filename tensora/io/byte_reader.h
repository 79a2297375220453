#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "tensora/base/check.h"

namespace tensora::io {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian, and so are the machines that this library supports");

using Bytes = std::span<uint8_t>;
using ConstBytes = std::span<const uint8_t>;

inline ConstBytes bytes_of_text(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// Part of a file that is somebody else's: throws where it ends too early, before it is touched.
inline ConstBytes part_of(ConstBytes bytes, uint64_t offset, uint64_t count) {
  check(offset <= bytes.size() && count <= bytes.size() - offset,
        "the file ends too early: ", count, " bytes are expected at ", offset, ", it has ",
        bytes.size());
  return bytes.subspan(offset, count);
}

/// Walks over bytes that may be anything.
class ByteReader {
 public:
  explicit ByteReader(ConstBytes bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }

  ConstBytes take(uint64_t count) {
    const ConstBytes result = part_of(bytes_, position_, count);
    position_ += count;
    return result;
  }
  std::string text(uint64_t count) {
    const ConstBytes part = take(count);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  /// The next number, little-endian.
  template <class Number>
  Number read() {
    Number result;
    std::memcpy(&result, take(sizeof(Number)).data(), sizeof(Number));
    return result;
  }

 private:
  ConstBytes bytes_;
  size_t position_ = 0;
};

/// Appends a number, little-endian.
template <class Number>
void append_number(std::string& out, Number number) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(Number));
  out.append(bytes, sizeof(Number));
}

}  // namespace tensora::io
