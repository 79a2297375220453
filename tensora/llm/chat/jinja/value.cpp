#include "tensora/llm/chat/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"

namespace tensora::llm::jinja {
namespace {

constexpr int32_t kMaxDepth = 100;
constexpr int32_t kMaxWeight = 5'000'000;

constexpr int64_t kShared = 4;    // steps for what a value shares with its copies
constexpr size_t kMaxName = 100;  // bytes of what an undefined value is called
constexpr size_t kMaxWritten = size_t{64} << 20;

bool equal(const Value& a, const Value& b);

bool equal_lists(const List& a, const List& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  return std::all_of(a.pairs().begin(), a.pairs().end(), [&](const auto& pair) {
    const Value* other = b.find(pair.first);
    return other && equal(pair.second, *other);
  });
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::text:
      return a.text() == b.text();
    case Value::Kind::list:
    case Value::Kind::tuple:
      return equal_lists(a.items(), b.items());
    case Value::Kind::dict:
      return equal_dicts(a.pairs(), b.pairs());
    case Value::Kind::space:
      return &a.pairs() == &b.pairs();
    case Value::Kind::function:
      return &a.callable() == &b.callable();
    default:
      return true;  // undefined, none
  }
}

void quote(std::string& out, std::string_view text) {
  const char mark =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"'
                                                                                            : '\'';
  out += mark;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == mark || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7F)
      out += {'\\', 'x', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
    else
      out += c;
  }
  out += mark;
}

void write(std::string& out, const Value& value);

void write_items(std::string& out, const List& items) {
  bool first = true;
  for (const Value& item : items) {
    if (!std::exchange(first, false)) out += ", ";
    write(out, item);
  }
}

void write_pairs(std::string& out, const Dict& dict) {
  bool first = true;
  for (const auto& [key, item] : dict.pairs()) {
    if (!std::exchange(first, false)) out += ", ";
    write(out, key);
    out += ": ";
    write(out, item);
  }
}

void write(std::string& out, const Value& value) {
  check(out.size() <= kMaxWritten, "a text of more than ", kMaxWritten, " bytes");
  switch (value.kind()) {
    case Value::Kind::undefined:
      out += "Undefined";
      return;
    case Value::Kind::none:
      out += "None";
      return;
    case Value::Kind::boolean:
      out += value.integer() ? "True" : "False";
      return;
    case Value::Kind::integer:
      out += std::to_string(value.integer());
      return;
    case Value::Kind::real:
      out += real_to_text(value.real());
      return;
    case Value::Kind::text:
      return quote(out, value.text());
    case Value::Kind::list:
      out += '[';
      write_items(out, value.items());
      out += ']';
      return;
    case Value::Kind::tuple:
      out += '(';
      write_items(out, value.items());
      out += value.items().size() == 1 ? ",)" : ")";
      return;
    case Value::Kind::dict:
      out += '{';
      write_pairs(out, value.pairs());
      out += '}';
      return;
    case Value::Kind::space:
      out += "<Namespace>";
      return;
    case Value::Kind::function:
      break;
  }
  out += concat("<function ", value.callable().name, ">");
}

}  // namespace

void Value::contain(const Value& part) {
  depth_ = std::max(depth_, part.depth_ + 1);
  weight_ += part.weight_;
  check(depth_ <= kMaxDepth, "a value is nested too deeply: more than ", kMaxDepth, " levels");
  check(weight_ <= kMaxWeight, "a value is too large: more than ", kMaxWeight, " parts");
}

Value Value::holding(const Value& held) && {
  contain(held);
  return std::move(*this);
}

Value::Value(std::string value) : kind_(Kind::text) {
  check(value.size() / 16 < kMaxWeight, "a text is too long: ", value.size(), " bytes");
  charge_bytes(value.size());
  weight_ += static_cast<int32_t>(value.size() / 16);
  data_ = std::make_shared<const std::string>(std::move(value));
}

Value Value::undefined(std::string name) {
  charge(kShared);
  if (name.size() > kMaxName) name = valid_utf8(name.substr(0, kMaxName)) + "...";
  Value out;
  out.data_ = std::make_shared<const Undefined>(Undefined{std::move(name)});
  return out;
}

Value Value::none() {
  Value out;
  out.kind_ = Kind::none;
  return out;
}

Value Value::list(List items) {
  charge(kShared);
  Value out;
  out.kind_ = Kind::list;
  for (const Value& item : items) out.contain(item);
  out.data_ = std::make_shared<const List>(std::move(items));
  return out;
}

Value Value::tuple(List items) {
  Value out = list(std::move(items));
  out.kind_ = Kind::tuple;
  return out;
}

Value Value::dict(Dict pairs) {
  charge(kShared);
  Value out;
  out.kind_ = Kind::dict;
  for (const auto& [key, value] : pairs.pairs()) {
    out.contain(key);
    out.contain(value);
  }
  out.data_ = std::make_shared<Dict>(std::move(pairs));
  return out;
}

// What is in a namespace changes; it is not counted, and nothing of it is compared or written.
Value Value::space(Dict pairs) {
  Value out;
  out.data_ = std::make_shared<Dict>(std::move(pairs));
  out.kind_ = Kind::space;
  return out;
}

Value Value::function(std::string name, Function function, Dict attributes) {
  charge(kShared);
  Value out;
  out.kind_ = Kind::function;
  for (const auto& [key, value] : attributes.pairs()) out.contain(value);
  out.data_ = std::make_shared<const Callable>(
      Callable{std::move(name), std::move(function), std::move(attributes)});
  return out;
}

const char* Value::type_name() const {
  switch (kind_) {
    case Kind::undefined:
      return "undefined";
    case Kind::none:
      return "none";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::space:
      return "namespace";
    case Kind::function:
      break;
  }
  return "function";
}

int64_t Value::integer() const {
  if (is(Kind::boolean)) return static_cast<int64_t>(std::get<bool>(data_));
  check(is(Kind::integer), "expected an int, got a ", type_name());
  return std::get<int64_t>(data_);
}

double Value::real() const {
  return is(Kind::real) ? std::get<double>(data_) : static_cast<double>(integer());
}

const std::string& Value::text() const {
  check(is_text(), "expected a str, got a ", type_name());
  return *std::get<std::shared_ptr<const std::string>>(data_);
}

const List& Value::items() const {
  check(is_sequence(), "expected a list, got a ", type_name());
  return *std::get<std::shared_ptr<const List>>(data_);
}

const Dict& Value::pairs() const {
  check(is_dict() || is(Kind::space), "expected a dict, got a ", type_name());
  return *std::get<std::shared_ptr<Dict>>(data_);
}

Dict& Value::space_pairs() const {
  check(is(Kind::space), "expected a namespace, got a ", type_name());
  return *std::get<std::shared_ptr<Dict>>(data_);
}

const Value::Callable& Value::callable() const {
  check(is(Kind::function), "a ", type_name(), " cannot be called");
  return *std::get<std::shared_ptr<const Callable>>(data_);
}

const std::string& Value::undefined_name() const {
  static const std::string unnamed = "a value";
  if (!is_undefined()) return unnamed;
  const auto& undefined = std::get<std::shared_ptr<const Undefined>>(data_);
  return undefined ? undefined->name : unnamed;
}

bool Value::truthy() const {
  switch (kind_) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return integer() != 0;
    case Kind::real:
      return real() != 0;
    case Kind::text:
      return !text().empty();
    case Kind::list:
    case Kind::tuple:
      return !items().empty();
    case Kind::dict:
      return pairs().size() != 0;
    default:
      return true;
  }
}

int64_t Value::length() const {
  if (is_sequence()) return std::ssize(items());
  if (is_dict()) return static_cast<int64_t>(pairs().size());
  return is_text() ? weight_ : 1;
}

std::string Value::to_text() const {
  if (!is_text()) return is_undefined() ? std::string() : to_source();
  charge(weight_);
  return text();
}

std::string Value::to_source() const {
  charge(weight_);
  std::string out;
  write(out, *this);
  return out;
}

bool operator==(const Value& a, const Value& b) { return equal(a, b); }

bool less(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.is_text() && b.is_text()) return a.text() < b.text();
  if (a.kind() == b.kind() && a.is_sequence()) {
    // As in Python, the first items that are not equal decide; equal ones need no order.
    const auto [x, y] =
        std::mismatch(a.items().begin(), a.items().end(), b.items().begin(), b.items().end());
    if (x == a.items().end() || y == b.items().end()) return a.items().size() < b.items().size();
    return less(*x, *y);
  }
  fail("a ", a.type_name(), " and a ", b.type_name(), " have no order");
}

std::string real_to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::abs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  char buffer[400];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value,
                    scientific ? std::chars_format::scientific : std::chars_format::fixed)
          .ptr;
  std::string out(buffer, end);
  if (!scientific && out.find('.') == std::string::npos) out += ".0";
  return out;
}

}  // namespace tensora::llm::jinja
