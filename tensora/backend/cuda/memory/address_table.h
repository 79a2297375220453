#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tensora::cuda {

/// Finds an object by its `address` member. A hash table with open addressing and linear probing,
/// at most half full: a look-up touches one or two cache lines.
template <class T>
class AddressTable {
 public:
  T* find(const void* address) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = home_of(address); slots_[i]; i = next(i))
      if (slots_[i]->address == address) return slots_[i];
    return nullptr;
  }

  void insert(T* object) {
    if (2 * (count_ + 1) > slots_.size()) enlarge();
    place(object);
    ++count_;
  }

  void erase(const T* object) {
    size_t hole = home_of(object->address);
    while (slots_[hole] != object) hole = next(hole);
    slots_[hole] = nullptr;
    --count_;
    // Entries after the hole move into it unless that would put them before their home slot.
    for (size_t i = next(hole); slots_[i]; i = next(i)) {
      const size_t home = home_of(slots_[i]->address);
      if (((i - home) & mask()) < ((i - hole) & mask())) continue;
      slots_[hole] = slots_[i];
      slots_[i] = nullptr;
      hole = i;
    }
  }

  template <class Body>
  void each(Body&& body) const {
    for (T* object : slots_)
      if (object) body(*object);
  }
  size_t size() const { return count_; }

 private:
  size_t mask() const { return slots_.size() - 1; }
  size_t next(size_t i) const { return (i + 1) & mask(); }
  size_t home_of(const void* address) const {
    // Blocks start at multiples of 512; the multiplication spreads what is left.
    const auto bits = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(address) >> 9);
    return static_cast<size_t>((bits * 0x9e3779b97f4a7c15u) >> 32) & mask();
  }
  void place(T* object) {
    size_t i = home_of(object->address);
    while (slots_[i]) i = next(i);
    slots_[i] = object;
  }
  void enlarge() {
    std::vector<T*> old(slots_.empty() ? 256 : 2 * slots_.size(), nullptr);
    old.swap(slots_);
    for (T* object : old)
      if (object) place(object);
  }

  std::vector<T*> slots_;
  size_t count_ = 0;
};

}  // namespace tensora::cuda
