#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tensora/base/check.h"
#include "tensora/base/utf8.h"
#include "tensora/llm/chat/jinja/value.h"

namespace tensora::llm::jinja {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 64;

std::string unit(uint32_t code) {
  std::string out = "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += "0123456789abcdef"[code >> shift & 15];
  return out;
}

std::string in_quotes(std::string_view text, bool ensure_ascii) {
  std::string out = "\"";
  while (!text.empty()) {
    const CodePoint point = decode_utf8(text);
    const char c = text[0];
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\b')
      out += "\\b";
    else if (c == '\f')
      out += "\\f";
    else if (point.code < 0x20 || (ensure_ascii && point.code == 0x7F))
      out += point.code == 0x7F ? std::string(1, c) : unit(point.code);
    else if (!ensure_ascii || point.code < 0x80 || point.code == kInvalidUtf8)
      out += text.substr(0, static_cast<size_t>(point.length));
    else if (point.code < 0x10000)
      out += unit(point.code);
    else
      out += unit(0xD800 + ((point.code - 0x10000) >> 10)) +
             unit(0xDC00 + ((point.code - 0x10000) & 0x3FF));
    text.remove_prefix(static_cast<size_t>(point.length));
  }
  return out + "\"";
}

class Writer {
 public:
  explicit Writer(const JsonOptions& options) : options_(options) {}

  void write(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::none:
        out += "null";
        return;
      case Value::Kind::boolean:
        out += value.integer() ? "true" : "false";
        return;
      case Value::Kind::integer:
        out += std::to_string(value.integer());
        return;
      case Value::Kind::real:
        out += real(value.real());
        return;
      case Value::Kind::text:
        out += in_quotes(value.text(), options_.ensure_ascii);
        return;
      case Value::Kind::list:
      case Value::Kind::tuple:
        return write_list(value.items());
      case Value::Kind::dict:
        return write_dict(value.pairs());
      default:
        break;
    }
    fail("tojson: a value of type ", value.type_name(), " cannot be written as JSON");
  }

  std::string out;

 private:
  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return real_to_text(value);
  }

  static std::string key(const Value& value) {
    if (value.is_text()) return value.text();
    check(value.is_number() || value.is_none(), "tojson: expected keys to be texts, got a ",
          value.type_name());
    return to_json(value);
  }

  void line(char bracket) {
    out += bracket;
    check(++depth_ <= kMaxDepth, "tojson: nested deeper than ", kMaxDepth);
    indent();
  }
  void indent() {
    if (!options_.indent) return;
    out += '\n';
    for (int i = 0; i < depth_; ++i) add(*options_.indent);
  }
  // What the template chose, and may have chosen to be long.
  void add(std::string_view text) {
    charge_bytes(text.size());
    check(out.size() + text.size() <= size_t{64} << 20, "tojson: the text becomes too long");
    out += text;
  }
  void separate(bool first) {
    if (first) return;
    // With an indent, Python leaves no blank at the end of a line.
    add(options_.indent && options_.item_separator == ", " ? "," : options_.item_separator);
    indent();
  }
  void close(char bracket) {
    --depth_;
    indent();
    out += bracket;
  }

  void write_list(const List& items) {
    if (items.empty()) {
      out += "[]";
      return;
    }
    line('[');
    for (size_t i = 0; i < items.size(); ++i) {
      separate(i == 0);
      write(items[i]);
    }
    close(']');
  }

  void write_dict(const Dict& dict) {
    if (dict.size() == 0) {
      out += "{}";
      return;
    }
    Dict::Pairs pairs = dict.pairs();
    if (options_.sort_keys)
      std::stable_sort(pairs.begin(), pairs.end(),
                       [](const auto& a, const auto& b) { return less(a.first, b.first); });
    line('{');
    for (size_t i = 0; i < pairs.size(); ++i) {
      separate(i == 0);
      out += in_quotes(key(pairs[i].first), options_.ensure_ascii);
      add(options_.key_separator);
      write(pairs[i].second);
    }
    close('}');
  }

  const JsonOptions& options_;
  int depth_ = 0;
};

Value convert(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return Value::none();
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<int64_t>();
    case Json::value_t::number_unsigned:
      check(json.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX),
            "expected integers of 63 bits, got ", json.get<uint64_t>());
      return json.get<int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get_ref<const std::string&>();
    case Json::value_t::array: {
      List items;
      for (const Json& item : json) items.push_back(convert(item));
      return Value::list(std::move(items));
    }
    default:
      break;
  }
  Dict pairs;
  for (const auto& [key, item] : json.items()) pairs.set(key, convert(item));
  return Value::dict(std::move(pairs));
}

}  // namespace

std::string to_json(const Value& value, const JsonOptions& options) {
  Writer writer(options);
  writer.write(value);
  return std::move(writer.out);
}

Value from_json(std::string_view text, std::string_view what) {
  try {
    const Json json = Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
      check(depth <= kMaxDepth, what, ": nested deeper than ", kMaxDepth);
      return true;
    });
    return convert(json);
  } catch (const Json::exception& error) {
    fail(what, ": expected JSON, got ", error.what());
  }
}

}  // namespace tensora::llm::jinja
