#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensora/core/tensor.h"

// What is saved and loaded: named tensors, and trees of plain values and tensors.

namespace tensora {

/// Tensors by name, in the order in which they were added.
class StateDict {
 public:
  using Entry = std::pair<std::string, Tensor>;

  StateDict() = default;
  StateDict(std::initializer_list<Entry> entries);

  /// Adds a tensor; a name that is there already is an error.
  void insert(std::string name, Tensor tensor);
  /// Adds a tensor, or replaces the one of this name.
  void set(std::string_view name, Tensor tensor);
  /// Removes a tensor; false if there is none of this name.
  bool erase(std::string_view name);

  bool contains(std::string_view name) const { return index_.find(name) != index_.end(); }
  /// Null if there is none of this name.
  const Tensor* find(std::string_view name) const;
  /// Throws if there is none of this name.
  const Tensor& at(std::string_view name) const;
  const Tensor& operator[](std::string_view name) const { return at(name); }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> index_;
};

/// A tree of None, booleans, integers, floating numbers, strings, tensors, lists and dicts: the
/// state of an optimizer, a scheduler or a whole run. PyTorch's checkpoints have the same shape.
class Value {
 public:
  /// A dict's keys are strings or integers.
  using Key = std::variant<int64_t, std::string>;
  using List = std::vector<Value>;
  using Dict = std::vector<std::pair<Key, Value>>;  // in the order of insertion

  Value() = default;
  Value(bool value) : value_(value) {}                       // NOLINT: implicit
  Value(int value) : value_(static_cast<int64_t>(value)) {}  // NOLINT: implicit
  Value(int64_t value) : value_(value) {}                    // NOLINT: implicit
  Value(double value) : value_(value) {}                     // NOLINT: implicit
  Value(const char* value) : value_(std::string(value)) {}   // NOLINT: implicit
  Value(std::string value) : value_(std::move(value)) {}     // NOLINT: implicit
  Value(Tensor value) : value_(std::move(value)) {}          // NOLINT: implicit
  Value(List value) : value_(std::move(value)) {}            // NOLINT: implicit
  Value(Dict value) : value_(std::move(value)) {}            // NOLINT: implicit
  Value(const StateDict& tensors);                           // NOLINT: implicit
  static Value list() { return Value(List{}); }
  static Value dict() { return Value(Dict{}); }

  bool is_none() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_tensor() const { return std::holds_alternative<Tensor>(value_); }
  bool is_list() const { return std::holds_alternative<List>(value_); }
  bool is_dict() const { return std::holds_alternative<Dict>(value_); }
  /// "a list", "an integer", …: for messages.
  std::string_view kind() const;

  // The contents; a value of another kind throws and says what it is.
  bool to_bool() const;
  int64_t to_int() const;
  double to_double() const;  // of an integer too
  const std::string& to_string() const;
  const Tensor& to_tensor() const;
  const List& to_list() const;
  List& to_list();
  const Dict& to_dict() const;
  Dict& to_dict();
  /// A dict of tensors, with names joined by dots where dicts are nested.
  StateDict to_state_dict() const;

  /// The entry of a dict; null if there is none.
  const Value* find(const Key& key) const;
  bool contains(const Key& key) const { return find(key) != nullptr; }
  /// The entry of a dict; throws if there is none.
  const Value& at(const Key& key) const;
  const Value& at(const char* key) const { return at(Key(std::string(key))); }
  const Value& at(int64_t index) const;  // of a list, or the entry of a dict with this key
  const Value& at(int index) const { return at(static_cast<int64_t>(index)); }
  /// The entry of a dict, added as None if absent; None itself becomes a dict.
  Value& operator[](const Key& key);
  Value& operator[](const char* key) { return (*this)[Key(std::string(key))]; }
  void push_back(Value value) { to_list().push_back(std::move(value)); }
  size_t size() const;  // of a list or a dict

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Tensor, List, Dict> value_;
};

/// "name" or 3: a key in a message.
std::string to_text(const Value::Key& key);

}  // namespace tensora
