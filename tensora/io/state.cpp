#include "tensora/io/state.h"

#include "tensora/base/check.h"

namespace tensora {

// ---- StateDict
// -----------------------------------------------------------------------------------

StateDict::StateDict(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) insert(entry.first, entry.second);
}

void StateDict::insert(std::string name, Tensor tensor) {
  const bool added = index_.emplace(name, entries_.size()).second;
  check(added, "StateDict: the name '", name, "' is there twice");
  entries_.emplace_back(std::move(name), std::move(tensor));
}

void StateDict::set(std::string_view name, Tensor tensor) {
  const auto found = index_.find(name);
  if (found == index_.end())
    insert(std::string(name), std::move(tensor));
  else
    entries_[found->second].second = std::move(tensor);
}

bool StateDict::erase(std::string_view name) {
  const auto found = index_.find(name);
  if (found == index_.end()) return false;
  const size_t position = found->second;
  index_.erase(found);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(position));
  for (auto& [key, value] : index_)
    if (value > position) --value;
  return true;
}

const Tensor* StateDict::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Tensor& StateDict::at(std::string_view name) const {
  const Tensor* tensor = find(name);
  check(tensor, "StateDict: there is no tensor '", name, "' among the ", size());
  return *tensor;
}

// ---- Value
// ---------------------------------------------------------------------------------------

Value::Value(const StateDict& tensors) {
  Dict dict;
  dict.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) dict.emplace_back(name, tensor);
  value_ = std::move(dict);
}

std::string_view Value::kind() const {
  constexpr std::string_view names[] = {"None",     "a boolean", "an integer", "a number",
                                        "a string", "a tensor",  "a list",     "a dict"};
  return names[value_.index()];
}

namespace {

template <class T, class Variant>
auto& contents(Variant& value, std::string_view expected, std::string_view kind) {
  auto* held = std::get_if<T>(&value);
  check(held, "Value: expected ", expected, ", got ", kind);
  return *held;
}

void collect_tensors(const Value& value, const std::string& prefix, StateDict& tensors) {
  for (const auto& [key, entry] : value.to_dict()) {
    const std::string name = prefix + (key.index() == 0 ? std::to_string(std::get<int64_t>(key))
                                                        : std::get<std::string>(key));
    if (entry.is_dict()) {
      collect_tensors(entry, name + ".", tensors);
    } else {
      check(entry.is_tensor(), "Value: expected a tensor at '", name, "', got ", entry.kind());
      tensors.insert(name, entry.to_tensor());
    }
  }
}

}  // namespace

bool Value::to_bool() const { return contents<bool>(value_, "a boolean", kind()); }
int64_t Value::to_int() const { return contents<int64_t>(value_, "an integer", kind()); }
double Value::to_double() const {
  if (is_int()) return static_cast<double>(std::get<int64_t>(value_));
  return contents<double>(value_, "a number", kind());
}
const std::string& Value::to_string() const {
  return contents<std::string>(value_, "a string", kind());
}
const Tensor& Value::to_tensor() const { return contents<Tensor>(value_, "a tensor", kind()); }
const Value::List& Value::to_list() const { return contents<List>(value_, "a list", kind()); }
Value::List& Value::to_list() { return contents<List>(value_, "a list", kind()); }
const Value::Dict& Value::to_dict() const { return contents<Dict>(value_, "a dict", kind()); }
Value::Dict& Value::to_dict() { return contents<Dict>(value_, "a dict", kind()); }

StateDict Value::to_state_dict() const {
  StateDict tensors;
  collect_tensors(*this, "", tensors);
  return tensors;
}

const Value* Value::find(const Key& key) const {
  for (const auto& [name, value] : to_dict())
    if (name == key) return &value;
  return nullptr;
}

const Value& Value::at(const Key& key) const {
  const Value* value = find(key);
  check(value, "Value: the dict has no entry ", to_text(key));
  return *value;
}

const Value& Value::at(int64_t index) const {
  if (is_dict()) return at(Key(index));
  const List& list = to_list();
  check(index >= 0 && index < static_cast<int64_t>(list.size()), "Value: index ", index,
        " is out of range for a list of ", list.size());
  return list[static_cast<size_t>(index)];
}

Value& Value::operator[](const Key& key) {
  if (is_none()) value_ = Dict{};
  Dict& dict = to_dict();
  for (auto& [name, value] : dict)
    if (name == key) return value;
  return dict.emplace_back(key, Value()).second;
}

size_t Value::size() const { return is_dict() ? to_dict().size() : to_list().size(); }

std::string to_text(const Value::Key& key) {
  if (key.index() == 0) return std::to_string(std::get<int64_t>(key));
  return "'" + std::get<std::string>(key) + "'";
}

}  // namespace tensora
