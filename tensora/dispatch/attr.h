#pragma once

// The attributes of ops: plain structs, whose `describe` lists the fields once. Printing, keyword
// arguments, saved graphs, equality and hashing derive from that list.

#include <bit>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tensora/base/small_vector.h"
#include "tensora/core/device.h"
#include "tensora/core/dtype.h"
#include "tensora/core/scalar.h"
#include "tensora/core/shape.h"

namespace tensora {

template <class Struct, class Member>
struct Field {
  std::string_view name;
  Member Struct::*member;
  /// The attribute itself.
  constexpr auto& of(auto& attrs) const { return attrs.*member; }
};
/// A field of a member, listed as if it were one of the struct that holds the member.
template <class Outer, class Inner>
struct NestedField {
  std::string_view name;
  Outer outer;
  Inner inner;
  constexpr auto& of(auto& attrs) const { return inner.of(attrs.*outer); }
};
/// One attribute in the field list of `describe`.
template <class Struct, class Member>
constexpr Field<Struct, Member> field(std::string_view name, Member Struct::*member) {
  return {name, member};
}
/// The field list itself: calls `body` with all fields. It is a closure, because instantiating a
/// std::tuple per op would dominate the time to compile the ops' headers.
template <class... Fields>
constexpr auto fields(Fields... listed) {
  return [=](auto&& body) { body(listed...); };
}

/// For ops without attributes.
struct NoAttrs {};
constexpr auto describe(std::type_identity<NoAttrs>) { return fields(); }

/// An attribute's value, for whatever treats ops generically. Enums are the text of their names.
struct AttrValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    floating,
    ints,
    floats,
    dtype,
    text
  } kind = Kind::none;
  int64_t integer = 0;
  double floating = 0;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::string text;
};
void append(std::string& out, const AttrValue& value);
/// "alpha=2, dim=[0, 1]"
std::string to_string(std::span<const std::pair<std::string_view, AttrValue>> attrs);
AttrValue to_attr_value(bool value);
AttrValue to_attr_value(int value);
AttrValue to_attr_value(int64_t value);
AttrValue to_attr_value(uint64_t value);
AttrValue to_attr_value(float value);
AttrValue to_attr_value(double value);
AttrValue to_attr_value(Scalar value);
AttrValue to_attr_value(DType value);
AttrValue to_attr_value(Device value);
AttrValue to_attr_value(const Shape& value);
AttrValue to_attr_value(std::vector<int64_t> value);
AttrValue to_attr_value(std::vector<double> value);
AttrValue to_attr_value(std::string value);
AttrValue to_attr_value(const char* value);

/// Which attribute of which op gets a value, for error messages.
struct AttrPlace {
  std::string_view op, attr;
  /// "sum: argument 'dim' must be a list of integers, got all"
  [[noreturn]] void fail_expected(std::string_view what, const AttrValue& got) const;
};
void from_attr_value(AttrPlace place, const AttrValue& from, bool& to);
void from_attr_value(AttrPlace place, const AttrValue& from, int& to);
void from_attr_value(AttrPlace place, const AttrValue& from, int64_t& to);
void from_attr_value(AttrPlace place, const AttrValue& from, uint64_t& to);
void from_attr_value(AttrPlace place, const AttrValue& from, float& to);
void from_attr_value(AttrPlace place, const AttrValue& from, double& to);
void from_attr_value(AttrPlace place, const AttrValue& from, Scalar& to);
void from_attr_value(AttrPlace place, const AttrValue& from, DType& to);
void from_attr_value(AttrPlace place, const AttrValue& from, Device& to);
void from_attr_value(AttrPlace place, const AttrValue& from, Shape& to);
void from_attr_value(AttrPlace place, const AttrValue& from, std::vector<int64_t>& to);
void from_attr_value(AttrPlace place, const AttrValue& from, std::vector<double>& to);
void from_attr_value(AttrPlace place, const AttrValue& from, std::string& to);

/// An enum that is an attribute names its values, which count from 0:
/// `constexpr std::array<std::string_view, 2> names_of(std::type_identity<Side>)`.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires { names_of(std::type_identity<E>{}); };

/// The position of the text among the names; throws with all names if it is not there.
size_t find_name(AttrPlace place, const AttrValue& from, std::span<const std::string_view> names);

template <NamedEnum E>
AttrValue to_attr_value(E value) {
  const auto names = names_of(std::type_identity<E>{});
  return to_attr_value(std::string(names.at(static_cast<size_t>(value))));
}
template <NamedEnum E>
void from_attr_value(AttrPlace place, const AttrValue& from, E& to) {
  to = static_cast<E>(find_name(place, from, names_of(std::type_identity<E>{})));
}
template <class T>
AttrValue to_attr_value(const std::optional<T>& value) {
  return value ? to_attr_value(*value) : AttrValue{};
}
template <class T>
void from_attr_value(AttrPlace place, const AttrValue& from, std::optional<T>& to) {
  to.reset();
  if (from.kind != AttrValue::Kind::none) from_attr_value(place, from, to.emplace());
}

/// The names and values of all attributes.
template <class Attrs>
std::vector<std::pair<std::string_view, AttrValue>> list_attrs(const Attrs& attrs) {
  std::vector<std::pair<std::string_view, AttrValue>> result;
  describe(std::type_identity<Attrs>{})([&](auto... listed) {
    (result.emplace_back(listed.name, to_attr_value(listed.of(attrs))), ...);
  });
  return result;
}

// ---- equality and hashing ----------------------------------------------------------------------

/// Attributes as a list of words that is equal exactly when the attributes are: by their bits, so
/// that NaN equals itself, 0.0 is not -0.0, and 1 is neither 1.0 nor True.
using AttrWords = SmallVector<uint64_t, 16>;

inline void append_words(AttrWords& words, double value) {
  words.push_back(std::bit_cast<uint64_t>(value));
}
template <class T>
  requires std::is_integral_v<T> || std::is_enum_v<T>
void append_words(AttrWords& words, T value) {
  words.push_back(static_cast<uint64_t>(value));
}
void append_words(AttrWords& words, Scalar value);
void append_words(AttrWords& words, Device value);
void append_words(AttrWords& words, const std::string& value);
template <class T>
  requires requires(const T& list) { list.begin(), list.size(); }
void append_words(AttrWords& words, const T& list) {
  words.push_back(static_cast<uint64_t>(list.size()));
  for (const auto& item : list) append_words(words, item);
}
template <class T>
void append_words(AttrWords& words, const std::optional<T>& value) {
  words.push_back(value.has_value());
  if (value) append_words(words, *value);
}
template <class T>
  requires requires { describe(std::type_identity<T>{}); }
void append_words(AttrWords& words, const T& attrs) {
  describe(std::type_identity<T>{})(
      [&](auto... listed) { (append_words(words, listed.of(attrs)), ...); });
}

}  // namespace tensora
