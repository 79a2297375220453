#pragma once

// A dict that keeps the order of insertion, with LibTorch's interface.

#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensora/base/check.h"

namespace torch {

template <class Key, class Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    Value& operator*() { return value(); }
    const Value& operator*() const { return value(); }
    Value* operator->() { return &value(); }
    const Value* operator->() const { return &value(); }
    const Key& key() const noexcept { return pair_.first; }
    Value& value() noexcept { return pair_.second; }
    const Value& value() const noexcept { return pair_.second; }
    const std::pair<Key, Value>& pair() const noexcept { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };
  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  explicit OrderedDict(std::string key_description = "Key")
      : key_description_(std::move(key_description)) {}
  OrderedDict(std::initializer_list<Item> items) : OrderedDict() {
    for (const Item& item : items) insert(item.key(), item.value());
  }

  const std::string& key_description() const noexcept { return key_description_; }
  size_t size() const noexcept { return items_.size(); }
  bool is_empty() const noexcept { return items_.empty(); }
  Item& front() { return items_.front(); }
  const Item& front() const { return items_.front(); }
  Item& back() { return items_.back(); }
  const Item& back() const { return items_.back(); }
  Item& operator[](size_t index) { return items_[index]; }
  const Item& operator[](size_t index) const { return items_[index]; }
  Value& operator[](const Key& key) { return at(key); }
  const Value& operator[](const Key& key) const { return at(key); }
  Iterator begin() { return items_.begin(); }
  Iterator end() { return items_.end(); }
  ConstIterator begin() const { return items_.begin(); }
  ConstIterator end() const { return items_.end(); }

  Value* find(const Key& key) noexcept {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &items_[found->second].value();
  }
  const Value* find(const Key& key) const noexcept {
    return const_cast<OrderedDict*>(this)->find(key);
  }
  bool contains(const Key& key) const noexcept { return find(key) != nullptr; }
  Value& at(const Key& key) { return const_cast<Value&>(std::as_const(*this).at(key)); }
  const Value& at(const Key& key) const {
    const Value* value = find(key);
    tensora::check(value != nullptr, key_description_, " '", key, "' is not defined");
    return *value;
  }

  template <class K, class V>
  Value& insert(K&& key, V&& value) {
    tensora::check(!index_.contains(key), key_description_, " '", key, "' already defined");
    items_.emplace_back(std::forward<K>(key), std::forward<V>(value));
    index_.emplace(back().key(), size() - 1);
    return back().value();
  }
  Value& insert(Key key, Value&& value) {
    return insert<Key, Value>(std::move(key), std::move(value));
  }
  void update(const OrderedDict& other) {
    for (const Item& item : other) insert(item.key(), item.value());
  }
  void update(OrderedDict&& other) {
    for (Item& item : other) insert(item.key(), std::move(item.value()));
  }
  void erase(const Key& key) {
    const auto found = index_.find(key);
    tensora::check(found != index_.end(), key_description_, " '", key, "' doesn't exist");
    const size_t position = found->second;
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(position));
    index_.erase(found);
    for (auto& entry : index_)
      if (entry.second > position) --entry.second;
  }
  void clear() {
    items_.clear();
    index_.clear();
  }
  void reserve(size_t size) { items_.reserve(size); }

  const std::vector<Item>& items() const noexcept { return items_; }
  std::vector<Key> keys() const {
    std::vector<Key> result;
    for (const Item& item : items_) result.push_back(item.key());
    return result;
  }
  std::vector<Value> values() const {
    std::vector<Value> result;
    for (const Item& item : items_) result.push_back(item.value());
    return result;
  }
  std::vector<std::pair<Key, Value>> pairs() const {
    std::vector<std::pair<Key, Value>> result;
    for (const Item& item : items_) result.push_back(item.pair());
    return result;
  }

 private:
  std::unordered_map<Key, size_t> index_;
  std::vector<Item> items_;
  std::string key_description_;
};

}  // namespace torch
