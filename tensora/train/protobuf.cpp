#include "tensora/train/protobuf.h"

#include <bit>
#include <optional>

namespace tensora::train {
namespace {

enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Takes a varint off the front.
std::optional<uint64_t> take_varint(std::string_view& rest) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(rest.front());
    rest.remove_prefix(1);
    value |= uint64_t(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

}  // namespace

void Message::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void Message::little_endian(uint64_t bits, int count) {
  for (int i = 0; i < count; ++i, bits >>= 8) bytes_ += static_cast<char>(bits & 0xFF);
}

Message& Message::integer(int field, int64_t value) {
  key(field, kVarint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

Message& Message::real(int field, double value) {
  key(field, kFixed64);
  little_endian(std::bit_cast<uint64_t>(value), 8);
  return *this;
}

Message& Message::single(int field, float value) {
  key(field, kFixed32);
  little_endian(std::bit_cast<uint32_t>(value), 4);
  return *this;
}

Message& Message::bytes(int field, std::string_view value) {
  key(field, kBytes);
  varint(value.size());
  bytes_ += value;
  return *this;
}

Message& Message::reals(int field, const std::vector<double>& values) {
  key(field, kBytes);
  varint(values.size() * 8);
  for (const double value : values) little_endian(std::bit_cast<uint64_t>(value), 8);
  return *this;
}

int64_t integer_field(std::string_view message, int field, int64_t missing) {
  while (!message.empty()) {
    const auto key = take_varint(message);
    if (!key) return -1;
    uint64_t length = *key % 8 == kFixed64 ? 8 : *key % 8 == kFixed32 ? 4 : 0;
    if (*key % 8 == kVarint || *key % 8 == kBytes) {
      const auto value = take_varint(message);
      if (!value) return -1;
      if (*key % 8 == kBytes)
        length = *value;
      else if (*key >> 3 == static_cast<uint64_t>(field))
        return static_cast<int64_t>(*value);
    } else if (length == 0) {
      return -1;
    }
    if (length > message.size()) return -1;
    message.remove_prefix(length);
  }
  return missing;
}

}  // namespace tensora::train
