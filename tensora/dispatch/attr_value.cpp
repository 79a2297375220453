#include "tensora/dispatch/attr.h"

#include <cstring>
#include <limits>

#include "tensora/dispatch/op_def.h"

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

bool is_integer(const AttrValue& value) {
  return value.kind == Kind::integer || value.kind == Kind::boolean;
}

int64_t as_integer(AttrPlace place, const AttrValue& from) {
  if (!is_integer(from)) place.fail_expected("an integer", from);
  return from.integer;
}

double as_floating(AttrPlace place, const AttrValue& from) {
  if (from.kind == Kind::floating) return from.floating;
  if (!is_integer(from)) place.fail_expected("a number", from);
  return static_cast<double>(from.integer);
}

// Parses a text; if `parse` throws, the error is extended by op and attribute.
template <class Parse>
auto parse_text(AttrPlace place, const AttrValue& from, std::string_view what, Parse&& parse) {
  if (from.kind != Kind::text && from.kind != Kind::dtype) place.fail_expected(what, from);
  try {
    return parse(from.text);
  } catch (const Error& error) {
    fail(place.op, ": argument '", place.attr, "': ", error.what());
  }
}

template <class T>
void append_list(std::string& out, const std::vector<T>& list) {
  out += '[';
  for (size_t i = 0; i < list.size(); ++i) {
    if (i != 0) out += ", ";
    append(out, list[i]);
  }
  out += ']';
}

}  // namespace

void AttrPlace::fail_expected(std::string_view what, const AttrValue& got) const {
  const bool quoted = got.kind == Kind::text;
  fail(op, ": argument '", attr, "' must be ", what, ", got ", quoted ? "'" : "", got,
       quoted ? "'" : "");
}

// ---- to values ---------------------------------------------------------------------------------

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
AttrValue to_attr_value(DType value) { return text_value(std::string(name(value)), Kind::dtype); }
AttrValue to_attr_value(Device value) { return text_value(to_string(value)); }
AttrValue to_attr_value(const Shape& value) {
  return to_attr_value(std::vector<int64_t>(value.begin(), value.end()));
}
AttrValue to_attr_value(std::vector<int64_t> value) {
  AttrValue result;
  result.kind = Kind::ints;
  result.ints = std::move(value);
  return result;
}
AttrValue to_attr_value(std::vector<double> value) {
  AttrValue result;
  result.kind = Kind::floats;
  result.floats = std::move(value);
  return result;
}
AttrValue to_attr_value(std::string value) { return text_value(std::move(value)); }
AttrValue to_attr_value(const char* value) { return text_value(value); }

// ---- from values -------------------------------------------------------------------------------

void from_attr_value(AttrPlace place, const AttrValue& from, bool& to) {
  if (!is_integer(from) || from.integer < 0 || from.integer > 1)
    place.fail_expected("True or False", from);
  to = from.integer != 0;
}
void from_attr_value(AttrPlace place, const AttrValue& from, int& to) {
  const int64_t value = as_integer(place, from);
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max())
    place.fail_expected("an integer of 32 bits", from);
  to = static_cast<int>(value);
}
void from_attr_value(AttrPlace place, const AttrValue& from, int64_t& to) {
  to = as_integer(place, from);
}
void from_attr_value(AttrPlace place, const AttrValue& from, uint64_t& to) {
  to = static_cast<uint64_t>(as_integer(place, from));  // all 64 bits are meant, as of a seed
}
void from_attr_value(AttrPlace place, const AttrValue& from, float& to) {
  to = static_cast<float>(as_floating(place, from));
}
void from_attr_value(AttrPlace place, const AttrValue& from, double& to) {
  to = as_floating(place, from);
}
void from_attr_value(AttrPlace place, const AttrValue& from, Scalar& to) {
  if (from.kind == Kind::boolean)
    to = Scalar(from.integer != 0);
  else if (from.kind == Kind::integer)
    to = Scalar(from.integer);
  else
    to = Scalar(as_floating(place, from));
}
void from_attr_value(AttrPlace place, const AttrValue& from, DType& to) {
  to =
      parse_text(place, from, "a dtype", [](const std::string& text) { return parse_dtype(text); });
}
void from_attr_value(AttrPlace place, const AttrValue& from, Device& to) {
  to = parse_text(place, from, "a device", [](const std::string& text) { return Device(text); });
}
void from_attr_value(AttrPlace place, const AttrValue& from, Shape& to) {
  if (from.kind != Kind::ints || from.ints.size() > kMaxDims)
    place.fail_expected(concat("a list of at most ", kMaxDims, " integers"), from);
  to = from.ints;
}
void from_attr_value(AttrPlace place, const AttrValue& from, std::vector<int64_t>& to) {
  if (from.kind != Kind::ints) place.fail_expected("a list of integers", from);
  to = from.ints;
}
void from_attr_value(AttrPlace place, const AttrValue& from, std::vector<double>& to) {
  if (from.kind == Kind::floats)
    to = from.floats;
  else if (from.kind == Kind::ints)
    to.assign(from.ints.begin(), from.ints.end());
  else
    place.fail_expected("a list of numbers", from);
}
void from_attr_value(AttrPlace place, const AttrValue& from, std::string& to) {
  if (from.kind != Kind::text) place.fail_expected("a text", from);
  to = from.text;
}

size_t find_name(AttrPlace place, const AttrValue& from, std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (from.kind == Kind::text && from.text == names[i]) return i;
  std::string all;
  for (std::string_view name : names) all += concat(all.empty() ? "'" : "', '", name);
  place.fail_expected(concat("one of ", all, "'"), from);
}

// ---- equality and hashing ----------------------------------------------------------------------

void append_words(AttrWords& words, Scalar value) {
  append_words(words, value.kind());
  if (value.is_complex()) append_words(words, value.to<Complex<double>>().imag());
  if (value.is_floating() || value.is_complex())
    append_words(words, value.to<double>());
  else
    append_words(words, value.to<int64_t>());
}
void append_words(AttrWords& words, Device value) {
  append_words(words, value.type);
  append_words(words, value.index);
}
void append_words(AttrWords& words, const std::string& value) {
  words.push_back(value.size());
  for (size_t i = 0; i < value.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, value.data() + i, std::min(sizeof word, value.size() - i));
    words.push_back(word);
  }
}

bool attrs_equal(const OpBase& op, const void* a, const void* b) {
  const AttrWords first = op.attr_words(a), second = op.attr_words(b);
  return std::equal(first.begin(), first.end(), second.begin(), second.end());
}

size_t attrs_hash(const OpBase& op, const void* attrs) {
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (uint64_t word : op.attr_words(attrs)) {
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

// ---- printing ----------------------------------------------------------------------------------

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
      append_list(out, value.ints);
      break;
    case Kind::floats:
      append_list(out, value.floats);
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
