#include "tensora/onnx/wire.h"

#include <bit>

namespace tensora::onnx {
namespace {

void expect(bool ok, std::string_view what) {
  check(ok, "the field ", what, " is not encoded as ONNX's schema says");
}

// A packed list of numbers of a fixed size.
template <class Number, class Body>
void for_each_fixed(io::ConstBytes bytes, std::string_view what, const Body& body) {
  expect(bytes.size() % sizeof(Number) == 0, what);
  io::ByteReader reader(bytes);
  while (reader.left() != 0) body(reader.read<Number>());
}

uint64_t read_varint(io::ByteReader& reader) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint64_t byte = reader.read<uint8_t>();
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  fail("a number has more than ten bytes");
}

}  // namespace

int64_t WireField::to_int(std::string_view what) const {
  expect(type == WireType::varint, what);
  return static_cast<int64_t>(integer);
}
float WireField::to_float(std::string_view what) const {
  expect(type == WireType::fixed32, what);
  return std::bit_cast<float>(static_cast<uint32_t>(integer));
}
std::string WireField::to_text(std::string_view what) const {
  const io::ConstBytes text = to_bytes(what);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}
io::ConstBytes WireField::to_bytes(std::string_view what) const {
  expect(type == WireType::length_delimited, what);
  return bytes;
}

uint64_t WireReader::varint() { return read_varint(reader_); }

bool WireReader::next(WireField& field) {
  if (reader_.left() == 0) return false;
  const uint64_t tag = varint();
  check(tag >> 3 != 0 && tag >> 3 < uint64_t{1} << 29, "a field has the number ", tag >> 3);
  field = {static_cast<uint32_t>(tag >> 3), static_cast<WireType>(tag & 7), 0, {}};
  switch (field.type) {
    case WireType::varint:
      field.integer = varint();
      return true;
    case WireType::fixed64:
      field.integer = reader_.read<uint64_t>();
      return true;
    case WireType::length_delimited:
      field.bytes = reader_.take(varint());
      return true;
    case WireType::fixed32:
      field.integer = reader_.read<uint32_t>();
      return true;
  }
  fail("field ", field.number, " has the wire type ", tag & 7, ", which ONNX does not use");
}

void for_each_int(const WireField& field, std::string_view what,
                  const std::function<void(int64_t)>& body) {
  if (field.type == WireType::varint) return body(static_cast<int64_t>(field.integer));
  io::ByteReader reader(field.to_bytes(what));
  while (reader.left() != 0) body(static_cast<int64_t>(read_varint(reader)));
}

void for_each_float(const WireField& field, std::string_view what,
                    const std::function<void(float)>& body) {
  if (field.type == WireType::fixed32) return body(field.to_float(what));
  for_each_fixed<float>(field.to_bytes(what), what, body);
}

void for_each_double(const WireField& field, std::string_view what,
                     const std::function<void(double)>& body) {
  if (field.type == WireType::fixed64) return body(std::bit_cast<double>(field.integer));
  for_each_fixed<double>(field.to_bytes(what), what, body);
}

void WireWriter::varint(uint64_t value) {
  while (value >= 0x80) {
    out_ += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out_ += static_cast<char>(value);
}

void WireWriter::put_int(uint32_t number, int64_t value) {
  tag(number, WireType::varint);
  varint(static_cast<uint64_t>(value));
}
void WireWriter::put_float(uint32_t number, float value) {
  tag(number, WireType::fixed32);
  io::append_number(out_, value);
}
void WireWriter::put_text(uint32_t number, std::string_view text) {
  begin_bytes(number, text.size());
  out_ += text;
}
void WireWriter::begin_bytes(uint32_t number, uint64_t size) {
  tag(number, WireType::length_delimited);
  varint(size);
}
void WireWriter::put_packed_ints(uint32_t number, const std::vector<int64_t>& values) {
  WireWriter list;
  for (int64_t value : values) list.varint(static_cast<uint64_t>(value));
  put_message(number, list);
}
void WireWriter::put_packed_floats(uint32_t number, const std::vector<float>& values) {
  WireWriter list;
  for (float value : values) io::append_number(list.out_, value);
  put_message(number, list);
}

}  // namespace tensora::onnx
