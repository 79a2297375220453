#include <functional>

#include "tensora/base/check.h"
#include "tensora/llm/chat/jinja/value.h"

namespace tensora::llm::jinja {

// Pairs in their order and, once there are many, a hash table of their positions: open addressing,
// a power of two slots, at most half of them used. 0 is an empty slot, i + 1 stands for pair i.
struct Dict::Table {
  Pairs pairs;
  std::vector<uint32_t, ChargedAllocator<uint32_t>> slots;

  void add(size_t position);
  void rebuild();
};

namespace {

constexpr size_t kFew = 16;

size_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

// Equal keys have equal hashes: 1, 1.0 and true are one key.
size_t hash_of(const Value& key) {
  if (key.is_text()) return hash_of(std::string_view(key.text()));
  if (key.is_number()) return std::hash<double>()(key.real());
  if (key.is(Value::Kind::space)) return std::hash<const void*>()(&key.pairs());
  if (key.is(Value::Kind::function)) return std::hash<const void*>()(&key.callable());
  return 0;
}

size_t mixed(size_t hash) { return (hash ^ hash >> 32) * 0x9E3779B97F4A7C15ull >> 16; }

bool same(const Value& known, std::string_view key) {
  return known.is_text() && known.text() == key;
}
bool same(const Value& known, const Value& key) { return known == key; }

}  // namespace

void Dict::Table::add(size_t position) {
  const size_t mask = slots.size() - 1;
  size_t slot = mixed(hash_of(pairs[position].first)) & mask;
  for (; slots[slot] != 0; slot = (slot + 1) & mask) charge(1);
  slots[slot] = static_cast<uint32_t>(position) + 1;
}

void Dict::Table::rebuild() {
  slots.assign(slots.empty() ? 4 * kFew : 2 * slots.size(), 0);
  for (size_t i = 0; i < pairs.size(); ++i) add(i);
}

template <class Key>
Value* Dict::search(const Key& key) const {
  if (!table_) return nullptr;
  auto& pairs = table_->pairs;
  if (table_->slots.empty()) {
    for (auto& [known, value] : pairs)
      if (same(known, key)) return &value;
    return nullptr;
  }
  const size_t mask = table_->slots.size() - 1;
  for (size_t slot = mixed(hash_of(key)) & mask;; slot = (slot + 1) & mask) {
    const uint32_t position = table_->slots[slot];
    if (position == 0) return nullptr;
    auto& [known, value] = pairs[position - 1];
    if (same(known, key)) return &value;
    charge(1);
  }
}

void check_key(const Value& key) {
  check(!key.is(Value::Kind::list) && !key.is_dict(), "expected a key, got a ", key.type_name());
}

const Value* Dict::find(const Value& key) const {
  if (key.is_text()) return find_text(key.text());
  return key.is_sequence() || key.is_dict() || key.is_undefined() ? nullptr : search(key);
}

const Value* Dict::find_text(std::string_view key) const {
  charge_bytes(key.size());
  return search(key);
}

void Dict::reserve(size_t count) {
  own();
  table_->pairs.reserve(count);
}

void Dict::own() {
  if (!table_)
    table_ = std::make_shared<Table>();
  else if (table_.use_count() > 1)
    table_ = std::make_shared<Table>(*table_);
}

void Dict::set(Value key, Value value) {
  check(!key.is_sequence() && !key.is_dict() && !key.is_undefined(), "expected a key, got a ",
        key.type_name());
  own();
  charge(key.weight());
  Value* known = key.is_text() ? search(std::string_view(key.text())) : search(key);
  if (known) {
    *known = std::move(value);
    return;
  }
  auto& [pairs, slots] = *table_;
  pairs.emplace_back(std::move(key), std::move(value));
  if (pairs.size() < kFew) return;
  if (2 * pairs.size() > slots.size())
    table_->rebuild();
  else
    table_->add(pairs.size() - 1);
}

const Dict::Pairs& Dict::pairs() const {
  static const Pairs none;
  return table_ ? table_->pairs : none;
}

size_t Dict::size() const { return pairs().size(); }

}  // namespace tensora::llm::jinja
