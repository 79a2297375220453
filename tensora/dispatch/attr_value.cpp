#include "tensora/dispatch/op.h"

namespace tensora {
namespace {

using Kind = AttrValue::Kind;

AttrValue integer_value(int64_t value, Kind kind = Kind::integer) {
  AttrValue result;
  result.kind = kind;
  result.integer = value;
  return result;
}

AttrValue text_value(std::string text, Kind kind = Kind::text) {
  AttrValue result;
  result.kind = kind;
  result.text = std::move(text);
  return result;
}

int64_t as_integer(const AttrValue& from) {
  check(from.kind == Kind::integer || from.kind == Kind::boolean,
        "expected an integer for this argument");
  return from.integer;
}

double as_floating(const AttrValue& from) {
  if (from.kind == Kind::floating) return from.floating;
  return static_cast<double>(as_integer(from));
}

}  // namespace

AttrValue to_attr_value(bool value) { return integer_value(value, Kind::boolean); }
AttrValue to_attr_value(int value) { return integer_value(value); }
AttrValue to_attr_value(int64_t value) { return integer_value(value); }
AttrValue to_attr_value(uint64_t value) { return integer_value(static_cast<int64_t>(value)); }
AttrValue to_attr_value(float value) { return to_attr_value(double{value}); }
AttrValue to_attr_value(double value) {
  AttrValue result;
  result.kind = Kind::floating;
  result.floating = value;
  return result;
}
AttrValue to_attr_value(Scalar value) {
  if (value.is_complex()) {
    const auto z = value.to<Complex<double>>();
    return text_value(concat("(", z.re, z.im < 0 ? "" : "+", z.im, "j)"));
  }
  if (value.is_floating()) return to_attr_value(value.to<double>());
  if (value.kind() == Scalar::Kind::boolean) return to_attr_value(value.to<bool>());
  return integer_value(value.to<int64_t>());
}
AttrValue to_attr_value(DType value) {
  AttrValue result = text_value(std::string(name(value)), Kind::dtype);
  result.integer = static_cast<int64_t>(value);
  return result;
}
AttrValue to_attr_value(Device value) { return text_value(to_string(value)); }
AttrValue to_attr_value(const Shape& value) {
  AttrValue result;
  result.kind = Kind::ints;
  result.ints = value;
  return result;
}

void from_attr_value(const AttrValue& from, bool& to) { to = as_integer(from) != 0; }
void from_attr_value(const AttrValue& from, int& to) { to = static_cast<int>(as_integer(from)); }
void from_attr_value(const AttrValue& from, int64_t& to) { to = as_integer(from); }
void from_attr_value(const AttrValue& from, uint64_t& to) {
  to = static_cast<uint64_t>(as_integer(from));
}
void from_attr_value(const AttrValue& from, float& to) {
  to = static_cast<float>(as_floating(from));
}
void from_attr_value(const AttrValue& from, double& to) { to = as_floating(from); }
void from_attr_value(const AttrValue& from, Scalar& to) {
  to = from.kind == Kind::floating  ? Scalar(from.floating)
       : from.kind == Kind::boolean ? Scalar(from.integer != 0)
                                    : Scalar(as_integer(from));
}
void from_attr_value(const AttrValue& from, DType& to) {
  to = from.kind == Kind::text ? parse_dtype(from.text) : static_cast<DType>(from.integer);
}
void from_attr_value(const AttrValue& from, Device& to) { to = Device(from.text); }
void from_attr_value(const AttrValue& from, Shape& to) {
  check(from.kind == Kind::ints, "expected a list of integers for this argument");
  to = from.ints;
}

void append(std::string& out, const AttrValue& value) {
  switch (value.kind) {
    case Kind::none:
      out += "None";
      break;
    case Kind::boolean:
      out += value.integer ? "True" : "False";
      break;
    case Kind::integer:
      append(out, value.integer);
      break;
    case Kind::floating:
      append(out, value.floating);
      break;
    case Kind::ints:
      append(out, value.ints);
      break;
    case Kind::dtype:
    case Kind::text:
      out += value.text;
      break;
  }
}

std::string to_string(std::span<const std::pair<std::string_view, AttrValue>> attrs) {
  std::string result;
  for (const auto& [name, value] : attrs) {
    if (!result.empty()) result += ", ";
    result += concat(name, "=", value);
  }
  return result;
}

}  // namespace tensora
