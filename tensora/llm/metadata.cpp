#include "tensora/llm/metadata.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

using Contents = MetadataValue::Contents;

enum class Kind { boolean, integer, floating, string };

Kind kind_of(MetadataType type) {
  switch (type) {
    case MetadataType::boolean:
      return Kind::boolean;
    case MetadataType::string:
      return Kind::string;
    case MetadataType::float32:
    case MetadataType::float64:
      return Kind::floating;
    default:
      return Kind::integer;
  }
}

// The integers of a type; of uint64 the bits, which are checked where the number is asked for.
std::pair<int64_t, int64_t> range_of(MetadataType type) {
  switch (type) {
    case MetadataType::boolean:
      return {0, 1};
    case MetadataType::uint8:
      return {0, UINT8_MAX};
    case MetadataType::int8:
      return {INT8_MIN, INT8_MAX};
    case MetadataType::uint16:
      return {0, UINT16_MAX};
    case MetadataType::int16:
      return {INT16_MIN, INT16_MAX};
    case MetadataType::uint32:
      return {0, UINT32_MAX};
    case MetadataType::int32:
      return {INT32_MIN, INT32_MAX};
    default:
      return {INT64_MIN, INT64_MAX};
  }
}

bool fits_float32(double value) {
  return !std::isfinite(value) || std::isfinite(static_cast<float>(value));
}

MetadataType usual_integer(int64_t smallest, int64_t largest) {
  if (smallest >= 0)
    return largest <= int64_t{UINT32_MAX} ? MetadataType::uint32 : MetadataType::uint64;
  return smallest >= INT32_MIN && largest <= INT32_MAX ? MetadataType::int32 : MetadataType::int64;
}

MetadataType usual_type(const Contents& contents) {
  struct Visitor {
    MetadataType operator()(bool) const { return MetadataType::boolean; }
    MetadataType operator()(int64_t value) const { return usual_integer(value, value); }
    MetadataType operator()(double value) const {
      return fits_float32(value) ? MetadataType::float32 : MetadataType::float64;
    }
    MetadataType operator()(const std::string&) const { return MetadataType::string; }
    // Arrays of integers are int32 in the files that exist.
    MetadataType operator()(const std::vector<int64_t>& values) const {
      if (values.empty()) return MetadataType::int32;
      const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
      if (*smallest >= INT32_MIN && *largest <= INT32_MAX) return MetadataType::int32;
      return usual_integer(*smallest, *largest);
    }
    MetadataType operator()(const std::vector<double>& values) const {
      return std::all_of(values.begin(), values.end(), fits_float32) ? MetadataType::float32
                                                                     : MetadataType::float64;
    }
    MetadataType operator()(const std::vector<std::string>&) const { return MetadataType::string; }
  };
  return std::visit(Visitor{}, contents);
}

std::string_view kind_name(size_t index) {
  constexpr std::string_view names[] = {"a bool",
                                        "an integer",
                                        "a floating number",
                                        "a string",
                                        "an array of integers",
                                        "an array of floating numbers",
                                        "an array of strings"};
  return names[index];
}

template <class T>
constexpr size_t index_of() {
  return Contents(T{}).index();
}

void check_fits(const Contents& contents, MetadataType type) {
  const Kind kind = kind_of(type);
  const auto suits = [&](Kind expected) {
    check(kind == expected || (kind == Kind::boolean && contents.index() == 4),
          "metadata: ", kind_name(contents.index()), " cannot be stored as ", name(type));
  };
  const auto in_range = [&](int64_t value) {
    const auto [smallest, largest] = range_of(type);
    check(value >= smallest && value <= largest, "metadata: ", value, " does not fit into ",
          name(type));
  };
  switch (contents.index()) {
    case 0:
      return suits(Kind::boolean);
    case 1:
      suits(Kind::integer);
      return in_range(std::get<int64_t>(contents));
    case 4:
      suits(Kind::integer);
      for (int64_t value : std::get<4>(contents)) in_range(value);
      return;
    case 2:
    case 5:
      return suits(Kind::floating);
    default:
      return suits(Kind::string);
  }
}

void append_text(std::string& out, int64_t value) { append(out, value); }
void append_text(std::string& out, double value) { append(out, value); }
void append_text(std::string& out, const std::string& value) {
  out += '"';
  out += value;
  out += '"';
}

template <class T>
std::string array_text(const std::vector<T>& values) {
  constexpr size_t shown = 6;
  std::string out = "[";
  for (size_t i = 0; i < std::min(values.size(), shown); ++i) {
    if (i > 0) out += ", ";
    append_text(out, values[i]);
  }
  if (values.size() > shown) out += concat(", … ", values.size(), " in all");
  return out + "]";
}

}  // namespace

std::string_view name(MetadataType type) {
  switch (type) {
    case MetadataType::uint8:
      return "uint8";
    case MetadataType::int8:
      return "int8";
    case MetadataType::uint16:
      return "uint16";
    case MetadataType::int16:
      return "int16";
    case MetadataType::uint32:
      return "uint32";
    case MetadataType::int32:
      return "int32";
    case MetadataType::float32:
      return "float32";
    case MetadataType::boolean:
      return "bool";
    case MetadataType::string:
      return "string";
    case MetadataType::uint64:
      return "uint64";
    case MetadataType::int64:
      return "int64";
    case MetadataType::float64:
      return "float64";
  }
  return "unknown";
}

MetadataValue::MetadataValue(Contents contents, MetadataType type)
    : contents_(std::move(contents)), type_(type) {
  check_fits(contents_, type_);
}

MetadataValue::MetadataValue(Contents contents)
    : contents_(std::move(contents)), type_(usual_type(contents_)) {}

size_t MetadataValue::size() const {
  switch (contents_.index()) {
    case 4:
      return std::get<4>(contents_).size();
    case 5:
      return std::get<5>(contents_).size();
    case 6:
      return std::get<6>(contents_).size();
    default:
      return 1;
  }
}

std::string MetadataValue::kind() const {
  return is_array() ? concat("array of ", size(), " ", name(type_)) : std::string(name(type_));
}

std::string MetadataValue::to_string() const {
  struct Visitor {
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const {
      return unsigned_bits ? concat(static_cast<uint64_t>(value)) : concat(value);
    }
    std::string operator()(double value) const { return concat(value); }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const std::vector<int64_t>& values) const { return array_text(values); }
    std::string operator()(const std::vector<double>& values) const { return array_text(values); }
    std::string operator()(const std::vector<std::string>& values) const {
      return array_text(values);
    }
    bool unsigned_bits;
  };
  return std::visit(Visitor{type_ == MetadataType::uint64}, contents_);
}

const MetadataValue* Metadata::find(std::string_view key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? nullptr : &entries_[place->second].second;
}

template <class T>
const T& Metadata::get(std::string_view key) const {
  const MetadataValue* value = find(key);
  check(value != nullptr, "metadata: there is no key '", key, "'; expected ",
        kind_name(index_of<T>()));
  const T* contents = std::get_if<T>(&value->contents());
  check(contents != nullptr, "metadata: '", key, "': expected ", kind_name(index_of<T>()), ", got ",
        value->kind());
  if constexpr (std::is_same_v<T, int64_t>)
    check(value->type() != MetadataType::uint64 || *contents >= 0, "metadata: '", key,
          "': ", value->to_string(), " does not fit into int64");
  return *contents;
}

template const bool& Metadata::get<bool>(std::string_view) const;
template const int64_t& Metadata::get<int64_t>(std::string_view) const;
template const double& Metadata::get<double>(std::string_view) const;
template const std::string& Metadata::get<std::string>(std::string_view) const;
template const std::vector<int64_t>& Metadata::get<std::vector<int64_t>>(std::string_view) const;
template const std::vector<double>& Metadata::get<std::vector<double>>(std::string_view) const;
template const std::vector<std::string>& Metadata::get<std::vector<std::string>>(
    std::string_view) const;

void Metadata::set(std::string_view key, MetadataValue value) {
  check(!key.empty(), "metadata: a key is empty");
  const auto [place, added] = places_.try_emplace(std::string(key), entries_.size());
  if (added)
    entries_.emplace_back(key, std::move(value));
  else
    entries_[place->second].second = std::move(value);
}

bool Metadata::erase(std::string_view key) {
  const auto place = places_.find(key);
  if (place == places_.end()) return false;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(place->second));
  places_.clear();
  for (size_t i = 0; i < entries_.size(); ++i) places_.emplace(entries_[i].first, i);
  return true;
}

}  // namespace tensora::llm
