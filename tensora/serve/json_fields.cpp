#include "tensora/serve/json_fields.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tensora/base/check.h"

namespace tensora::serve {
namespace {

constexpr int kMostLevels = 100;
// An object looks through its names for each further one: this bounds the comparisons.
constexpr size_t kMostComparisons = 50'000'000;

// Watches the parser: depth, and names that an object has twice.
class Watch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kMostLevels)
        throw ApiError(400, concat("the body is nested deeper than ", kMostLevels, " levels"));
      if (event == Event::object_start) names_.emplace_back();
    } else if (event == Event::object_end) {
      names_.pop_back();
    } else if (event == Event::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      comparisons_ += names_.back().size();
      if (comparisons_ > kMostComparisons)
        throw ApiError(400, "the body has objects with too many names");
      if (!names_.back().insert(name).second)
        throw ApiError(400, concat("the body gives '", name, "' twice in one object"), name);
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> names_;
  size_t comparisons_ = 0;
};

}  // namespace

Json parse_body(std::string_view body) {
  if (body.empty()) throw ApiError(400, "expected a JSON object as the body, got nothing");
  Json parsed;
  try {
    parsed = Json::parse(body, Watch());
  } catch (const Json::exception& error) {
    const std::string_view what = error.what();
    const size_t from = what.find("] ");
    throw ApiError(400, concat("the body is not valid JSON: ",
                               from == std::string_view::npos ? what : what.substr(from + 2)));
  }
  if (!parsed.is_object())
    throw ApiError(400, concat("expected a JSON object as the body, got ", kind_of(parsed)));
  return parsed;
}

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    default:
      return "a number";
  }
}

Fields::Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (!object.is_object())
    throw ApiError(400, concat(path_, ": expected an object, got ", kind_of(object)), path_);
}

std::string Fields::path_of(const std::string& name) const {
  return path_.empty() ? name : concat(path_, ".", name);
}

void Fields::fail(const std::string& name, const std::string& what) const {
  const std::string path = path_of(name);
  throw ApiError(400, concat(path, ": ", what), path);
}

bool Fields::has(const std::string& name) const {
  const auto found = object_->find(name);
  return found != object_->end() && !found->is_null();
}

const Json* Fields::find(const std::string& name) {
  read_.push_back(name);
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::at(const std::string& name) {
  const Json* value = find(name);
  if (!value) fail(name, "is required");
  return *value;
}

std::optional<bool> Fields::boolean(const std::string& name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) fail(name, concat("expected true or false, got ", kind_of(*value)));
  return value->get<bool>();
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t least, int64_t most) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) fail(name, concat("expected an integer, got ", kind_of(*value)));
  const auto refuse = [&]() {
    fail(name, concat("expected an integer from ", least, " to ", most, ", got ", value->dump()));
  };
  int64_t number = 0;
  if (value->is_number_float()) {
    const double given = value->get<double>();
    // Beyond this, not every whole number is a double.
    if (std::abs(given) > 9007199254740992. || given != std::floor(given)) refuse();
    number = static_cast<int64_t>(given);
  } else if (value->is_number_unsigned()) {
    const auto given = value->get<uint64_t>();
    if (given > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) refuse();
    number = static_cast<int64_t>(given);
  } else {
    number = value->get<int64_t>();
  }
  if (number < least || number > most) refuse();
  return number;
}

std::optional<double> Fields::number(const std::string& name, double least, double most) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) fail(name, concat("expected a number, got ", kind_of(*value)));
  const double given = value->get<double>();
  if (!(given >= least && given <= most))
    fail(name, concat("expected a number from ", least, " to ", most, ", got ", value->dump()));
  return given;
}

std::optional<std::string> Fields::text(const std::string& name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(name, concat("expected a string, got ", kind_of(*value)));
  return value->get<std::string>();
}

std::string Fields::required_text(const std::string& name) {
  if (!has(name)) fail(name, "is required");
  return *text(name);
}

std::optional<std::string> Fields::choice(const std::string& name,
                                          std::initializer_list<std::string_view> allowed) {
  const auto given = text(name);
  if (!given || std::find(allowed.begin(), allowed.end(), *given) != allowed.end()) return given;
  std::string all;
  for (const std::string_view one : allowed) all += concat(all.empty() ? "" : ", ", one);
  fail(name, concat("expected one of ", all, ", got '", *given, "'"));
}

std::optional<Fields> Fields::object(const std::string& name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  return Fields(*value, path_of(name));
}

const Json* Fields::list(const std::string& name, size_t most) {
  const Json* value = find(name);
  if (!value) return nullptr;
  if (!value->is_array()) fail(name, concat("expected a list, got ", kind_of(*value)));
  if (value->size() > most)
    fail(name, concat("expected at most ", most, " elements, got ", value->size()));
  return value;
}

void Fields::accept(std::initializer_list<std::string_view> names) {
  read_.insert(read_.end(), names.begin(), names.end());
}

std::vector<std::string> Fields::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->items())
    if (!value.is_null() && std::find(read_.begin(), read_.end(), name) == read_.end())
      names.push_back(path_of(name));
  return names;
}

}  // namespace tensora::serve
