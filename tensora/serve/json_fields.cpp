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
// What three bytes of text become can take a hundred in memory; several bodies are parsed at once.
constexpr size_t kMostValues = 4'000'000, kMostContainers = 50'000;

// Reads a body before it is kept: depth, numbers of values, and names that an object has twice.
// Json::parse could call this itself, but then looks through a whole list after each object in it.
class Watch final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool start_object(size_t) override {
    names_.emplace_back();
    return enter();
  }
  bool end_object() override {
    names_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    comparisons_ += names_.back().size();
    if (comparisons_ > kMostComparisons)
      throw ApiError(400, "the body has objects with too many names");
    if (!names_.back().insert(name).second)
      throw ApiError(400, concat("the body gives '", name.substr(0, 64), "' twice in one object"),
                     name.substr(0, 64));
    return true;
  }
  // Json::parse says the same, by an exception.
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool count() {
    if (++values_ > kMostValues)
      throw ApiError(400, concat("the body has more than ", kMostValues, " values"));
    return true;
  }
  bool enter() {
    if (++containers_ > kMostContainers)
      throw ApiError(400, concat("the body has more than ", kMostContainers, " lists and objects"));
    if (++depth_ > kMostLevels)
      throw ApiError(400, concat("the body is nested deeper than ", kMostLevels, " levels"));
    return true;
  }

  std::vector<std::set<std::string>> names_;
  size_t comparisons_ = 0, values_ = 0, containers_ = 0;
  int depth_ = 0;
};

}  // namespace

Json parse_body(std::string_view body) {
  if (body.empty()) throw ApiError(400, "expected a JSON object as the body, got nothing");
  Json parsed;
  try {
    Watch watch;
    Json::sax_parse(body, &watch);
    parsed = Json::parse(body);
  } catch (const Json::exception& error) {
    std::string_view what = error.what();  // with all of the value that was being read
    if (const size_t from = what.find("] "); from != what.npos) what.remove_prefix(from + 2);
    throw ApiError(400, concat("the body is not valid JSON: ", what.substr(0, 256)));
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

Fields::~Fields() {
  constexpr size_t kMostPaths = 64;  // a header names no more
  if (!is_below_ || !unread_below_) return;
  for (std::string& name : own_unread())
    if (unread_below_->size() < kMostPaths) unread_below_->push_back(std::move(name));
}

Fields Fields::below(const Json& object, std::string path) {
  if (!unread_below_) unread_below_ = std::make_shared<std::vector<std::string>>();
  Fields inner(object, std::move(path));
  inner.unread_below_ = unread_below_;
  inner.is_below_ = true;
  return inner;
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
  fail(name, concat("expected one of ", all, ", got '", given->substr(0, 64), "'"));
}

std::optional<Fields> Fields::object(const std::string& name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  return below(*value, path_of(name));
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

std::vector<std::string> Fields::own_unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->items())
    if (!value.is_null() && std::find(read_.begin(), read_.end(), name) == read_.end())
      names.push_back(path_of(name));
  return names;
}

std::vector<std::string> Fields::unread() const {
  std::vector<std::string> names = own_unread();
  if (unread_below_ && !is_below_)
    names.insert(names.end(), unread_below_->begin(), unread_below_->end());
  return names;
}

}  // namespace tensora::serve
