#pragma once

// Internal header: Protocol Buffers' wire format, in which ONNX files are written.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tensora/io/byte_reader.h"

namespace tensora::onnx {

/// How a field's contents are encoded.
enum class WireType : uint8_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

/// One field of a message as it lies in the file.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::varint;
  uint64_t integer = 0;       // of varint, fixed64 and fixed32
  io::ConstBytes bytes = {};  // of length_delimited

  /// The contents as what the schema says they are; another wire type throws and names `what`.
  int64_t to_int(std::string_view what) const;
  float to_float(std::string_view what) const;
  std::string to_text(std::string_view what) const;
  io::ConstBytes to_bytes(std::string_view what) const;
};

/// Walks over the fields of a message, which may be any bytes: throws where they end too early or
/// hold a wire type that does not exist.
class WireReader {
 public:
  explicit WireReader(io::ConstBytes message) : reader_(message) {}

  /// False at the end of the message.
  bool next(WireField& field);

 private:
  uint64_t varint();

  io::ByteReader reader_;
};

/// Calls `body` for each number of a repeated field, which is either one number or a packed list of
/// them.
void for_each_int(const WireField& field, std::string_view what,
                  const std::function<void(int64_t)>& body);
void for_each_float(const WireField& field, std::string_view what,
                    const std::function<void(float)>& body);
void for_each_double(const WireField& field, std::string_view what,
                     const std::function<void(double)>& body);

/// Builds a message.
class WireWriter {
 public:
  void put_int(uint32_t number, int64_t value);
  void put_float(uint32_t number, float value);
  void put_text(uint32_t number, std::string_view text);
  void put_message(uint32_t number, const WireWriter& message) { put_text(number, message.out_); }
  void put_packed_ints(uint32_t number, const std::vector<int64_t>& values);
  void put_packed_floats(uint32_t number, const std::vector<float>& values);
  /// The head of a field of `size` bytes that the caller writes itself.
  void begin_bytes(uint32_t number, uint64_t size);
  void append(const WireWriter& fields) { out_ += fields.out_; }

  const std::string& text() const { return out_; }

 private:
  void varint(uint64_t value);
  void tag(uint32_t number, WireType type) {
    varint(uint64_t{number} << 3 | static_cast<uint64_t>(type));
  }

  std::string out_;
};

}  // namespace tensora::onnx
