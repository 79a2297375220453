#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace tensora::data {

/// Reads bytes from the beginning of a file to its end; unpacks them where they are gzip's.
class ByteStream {
 public:
  explicit ByteStream(std::span<const uint8_t> file);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  /// Fills `to`, or what is left of the file; returns how many bytes it wrote. Throws where packed
  /// data are broken or cut off.
  size_t read(std::span<uint8_t> to);
  /// No file of this length can unpack to more than this.
  uint64_t most_bytes() const;

 private:
  struct Unpacker;
  std::span<const uint8_t> rest_;
  uint64_t most_bytes_;
  std::unique_ptr<Unpacker> unpacker_;  // null: the bytes are plain
};

}  // namespace tensora::data
