#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensora::train {

/// Writes a protocol buffer message field by field: the few wire types that event files need.
class Message {
 public:
  Message& integer(int field, int64_t value);
  Message& real(int field, double value);
  Message& single(int field, float value);
  Message& bytes(int field, std::string_view value);
  Message& message(int field, const Message& value) { return bytes(field, value.bytes_); }
  Message& reals(int field, const std::vector<double>& values);

  const std::string& str() const { return bytes_; }

 private:
  void varint(uint64_t value);
  void key(int field, int type) { varint(static_cast<uint64_t>(field) << 3 | uint64_t(type)); }
  void little_endian(uint64_t bits, int count);

  std::string bytes_;
};

/// The integer field `field` of a message, `missing` if there is none; -1 if the message is broken.
int64_t integer_field(std::string_view message, int field, int64_t missing);

}  // namespace tensora::train
