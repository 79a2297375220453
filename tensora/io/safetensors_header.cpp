#include "tensora/io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tensora/io/mapped_file.h"

namespace tensora::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<DType, std::string_view> kNames[] = {
    {kBool, "BOOL"},     {kUInt8, "U8"},           {kInt8, "I8"},
    {kInt16, "I16"},     {kInt32, "I32"},          {kInt64, "I64"},
    {kUInt16, "U16"},    {kUInt32, "U32"},         {kUInt64, "U64"},
    {kFloat16, "F16"},   {kBFloat16, "BF16"},      {kFloat32, "F32"},
    {kFloat64, "F64"},   {kFloat8E4M3, "F8_E4M3"}, {kFloat8E5M2, "F8_E5M2"},
    {kComplex64, "C64"},
};

DType dtype_named(std::string_view name) {
  for (const auto& [dtype, text] : kNames)
    if (text == name) return dtype;
  fail("tensors of type ", name, " are not supported");
}

constexpr std::string_view kMetadataName = "__metadata__";

// Takes the header's text apart as the parser walks over it. No tree is built, so a name that is
// there twice is seen, and a deeply nested text costs nothing.
class HeaderParser : public nlohmann::json_sax<Json> {
 public:
  SafetensorsHeader header;
  std::string problem;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is not an integer of 64 bits");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (depth_ != 2 || !in_list_) return unexpected("a number");
    if (number > static_cast<uint64_t>(INT64_MAX)) return refuse("a number is too large");
    numbers_.push_back(number);
    if (numbers_.size() > static_cast<size_t>(kMaxDims)) return refuse("a list is too long");
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ != 2 || in_list_) return unexpected("a text");
    if (in_metadata()) {
      header.metadata[key_] = text;
    } else if (key_ == "dtype") {
      header.tensors.back().dtype = dtype_named(text);
    } else {
      return unexpected("a text");
    }
    return true;
  }
  bool start_object(size_t) override {
    if (depth_ == 2 || in_list_) return unexpected("an object");
    if (++depth_ == 2 && !in_metadata()) header.tensors.push_back({.name = name_, .sizes = {}});
    keys_.clear();
    return true;
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      name_ = text;
      if (!names_.insert(text).second) return refuse("the name is there twice");
      return true;
    }
    key_ = text;
    if (!keys_.insert(text).second) return refuse("'" + text + "' is there twice");
    if (in_metadata() || text == "dtype" || text == "shape" || text == "data_offsets") return true;
    return refuse("'" + text + "' is not part of the format");
  }
  bool end_object() override {
    if (depth_-- == 2 && !in_metadata() && keys_.size() != 3)
      return refuse("'dtype', 'shape' and 'data_offsets' are needed");
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_list_ || in_metadata() || key_ == "dtype") return unexpected("a list");
    in_list_ = true;
    numbers_.clear();
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    TensorEntry& tensor = header.tensors.back();
    if (key_ == "shape") {
      for (uint64_t number : numbers_) tensor.sizes.push_back(static_cast<int64_t>(number));
    } else {
      if (numbers_.size() != 2) return refuse("'data_offsets' must be two numbers");
      tensor.begin = numbers_[0];
      tensor.end = numbers_[1];
    }
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    problem = concat("the header is not valid JSON at byte ", position);
    return false;
  }

 private:
  bool in_metadata() const { return name_ == kMetadataName; }
  bool refuse(const std::string& reason) {
    problem = concat("the header's entry '", name_, "': ", reason);
    return false;
  }
  bool unexpected(const std::string& what) { return refuse(what + " where none is expected"); }

  int depth_ = 0;
  bool in_list_ = false;
  std::string name_, key_;
  std::set<std::string> names_, keys_;
  std::vector<uint64_t> numbers_;
};

void check_positions(const std::vector<TensorEntry>& tensors, uint64_t data_bytes) {
  std::vector<const TensorEntry*> sorted;
  for (const TensorEntry& tensor : tensors) {
    check(tensor.begin <= tensor.end && tensor.end <= data_bytes, "the tensor '", tensor.name,
          "' is at bytes ", tensor.begin, " to ", tensor.end, " of ", data_bytes);
    const uint64_t needed = dense_bytes(tensor.sizes, tensor.dtype);
    check(needed == tensor.end - tensor.begin, "the tensor '", tensor.name, "' of shape ",
          tensor.sizes, " and type ", safetensors_name(tensor.dtype), " has ",
          tensor.end - tensor.begin, " bytes instead of ", needed);
    sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t position = 0;
  for (const TensorEntry* tensor : sorted) {
    check(tensor->begin == position, "the tensor '", tensor->name, "' begins at byte ",
          tensor->begin, ", where ", position, " is expected: tensors overlap or leave a hole");
    position = tensor->end;
  }
  check(position == data_bytes, "the tensors end at byte ", position, " of ", data_bytes);
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  for (const auto& [known, text] : kNames)
    if (known == dtype) return text;
  return {};
}

SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t data_bytes) {
  check(text.starts_with("{"), "the header is not a JSON object");
  HeaderParser parser;
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &parser);
  check(parsed, parser.problem);
  check_positions(parser.header.tensors, data_bytes);
  return std::move(parser.header);
}

std::string print_safetensors_header(const SafetensorsHeader& header) {
  const auto quoted = [](const std::string& text) {
    try {
      return Json(text).dump();
    } catch (const Json::exception&) {
      fail("a name or a text of the metadata is not valid UTF-8");
    }
  };
  std::string out = "{";
  if (!header.metadata.empty()) out += concat("\"", kMetadataName, "\":{");
  for (const auto& [key, text] : header.metadata)
    out += concat(out.ends_with('{') ? "" : ",", quoted(key), ":", quoted(text));
  if (!header.metadata.empty()) out += "}";
  for (const TensorEntry& tensor : header.tensors) {
    check(tensor.name != kMetadataName, "a tensor cannot be called '", kMetadataName, "'");
    out += concat(out.size() > 1 ? "," : "", quoted(tensor.name), ":{\"dtype\":\"",
                  safetensors_name(tensor.dtype), "\",\"shape\":", tensor.sizes,
                  ",\"data_offsets\":[", tensor.begin, ",", tensor.end, "]}");
  }
  return out + "}";
}

}  // namespace tensora::io
