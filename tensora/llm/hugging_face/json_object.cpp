#include "tensora/llm/hugging_face/json_object.h"

#include <filesystem>

#include "tensora/io/mapped_file.h"

namespace tensora::llm {
namespace {

constexpr int kMostDepth = 64;
constexpr size_t kMostBytes = size_t{1} << 30;

JsonObject::Json parsed(std::string_view text, const std::string& file) {
  using Json = JsonObject::Json;
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    check(depth <= kMostDepth, "'", file, "': it is nested more than ", kMostDepth, " deep");
    return true;
  };
  Json json;
  try {
    json = Json::parse(text.begin(), text.end(), shallow);
  } catch (const Json::parse_error& error) {
    fail("'", file, "': it is not valid JSON at byte ", error.byte);
  } catch (const Json::exception& error) {
    fail("'", file, "': it is not valid JSON: ", error.what());
  }
  return json;
}

JsonObject::Json parsed_file(const std::string& path) {
  const auto file = io::reading("json", path, [&] { return io::MappedFile::open(path); });
  const io::ConstBytes bytes = file->bytes();
  check(bytes.size() <= kMostBytes, "'", path, "': it has ", bytes.size(),
        " bytes; expected at most ", kMostBytes);
  return parsed({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

JsonObject object_of(JsonObject::Json json, std::string file) {
  check(json.is_object(), "'", file, "': expected a JSON object, got ", json.type_name());
  return JsonObject(std::move(json), std::move(file));
}

}  // namespace

JsonObject JsonObject::parse(std::string_view text, std::string file) {
  Json json = parsed(text, file);
  return object_of(std::move(json), std::move(file));
}

JsonObject JsonObject::read(const std::string& path) { return object_of(parsed_file(path), path); }

JsonObject::Json JsonObject::read_list(const std::string& path) {
  Json json = parsed_file(path);
  check(json.is_array(), "'", path, "': expected a JSON list, got ", json.type_name());
  return json;
}

std::optional<JsonObject> JsonObject::read_if_there(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  return read(path);
}

const JsonObject::Json* JsonObject::find(const std::string& key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const JsonObject::Json& JsonObject::at(const std::string& key, std::string_view expected) const {
  const Json* found = find(key);
  check(found != nullptr, "'", file_, "': there is no '", key, "'; expected ", expected);
  return *found;
}

void JsonObject::refuse(const std::string& key, std::string_view expected, const Json& got) const {
  fail("'", file_, "': '", key, "': expected ", expected, ", got ", got.type_name(), " ",
       got.dump().substr(0, 60));
}

int64_t JsonObject::integer(const std::string& key) const {
  const Json& value = at(key, "an integer");
  if (!value.is_number_integer()) refuse(key, "an integer", value);
  return value.get<int64_t>();
}
int64_t JsonObject::integer(const std::string& key, int64_t otherwise) const {
  return contains(key) ? integer(key) : otherwise;
}

double JsonObject::number(const std::string& key) const {
  const Json& value = at(key, "a number");
  if (!value.is_number()) refuse(key, "a number", value);
  return value.get<double>();
}
double JsonObject::number(const std::string& key, double otherwise) const {
  return contains(key) ? number(key) : otherwise;
}

bool JsonObject::boolean(const std::string& key) const {
  const Json& value = at(key, "true or false");
  if (!value.is_boolean()) refuse(key, "true or false", value);
  return value.get<bool>();
}
bool JsonObject::boolean(const std::string& key, bool otherwise) const {
  return contains(key) ? boolean(key) : otherwise;
}

std::string JsonObject::text(const std::string& key) const {
  const Json& value = at(key, "a string");
  if (!value.is_string()) refuse(key, "a string", value);
  return value.get<std::string>();
}
std::string JsonObject::text(const std::string& key, std::string otherwise) const {
  return contains(key) ? text(key) : otherwise;
}

std::vector<double> JsonObject::numbers(const std::string& key) const {
  const Json& list = at(key, "a list of numbers");
  if (!list.is_array()) refuse(key, "a list of numbers", list);
  std::vector<double> result;
  for (const Json& value : list) {
    if (!value.is_number()) refuse(key, "a list of numbers", list);
    result.push_back(value.get<double>());
  }
  return result;
}

std::vector<std::string> JsonObject::texts(const std::string& key) const {
  const Json& list = at(key, "a list of strings");
  if (!list.is_array()) refuse(key, "a list of strings", list);
  std::vector<std::string> result;
  for (const Json& value : list) {
    if (!value.is_string()) refuse(key, "a list of strings", list);
    result.push_back(value.get<std::string>());
  }
  return result;
}

std::vector<int64_t> JsonObject::integers(const std::string& key) const {
  const Json* value = find(key);
  if (!value) return {};
  if (!value->is_array()) return {integer(key)};
  std::vector<int64_t> result;
  for (const Json& item : *value) {
    if (!item.is_number_integer()) refuse(key, "a list of integers", *value);
    result.push_back(item.get<int64_t>());
  }
  return result;
}

std::optional<JsonObject> JsonObject::object(const std::string& key) const {
  const Json* value = find(key);
  if (!value) return {};
  if (!value->is_object()) refuse(key, "an object", *value);
  return JsonObject(*value, file_);
}

}  // namespace tensora::llm
