#pragma once

// Internal header: the nodes that wait for their turn in a run of backward.

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "tensora/autograd/node.h"

namespace tensora {

using Place = uint64_t;  // in the order of a run; greater ones come first

/// A node that some gradient has reached, and what arrived so far.
struct Pending {
  NodePtr node;
  Place place = 0;
  Tensors grads;
};

class PendingSet {
 public:
  bool empty() const { return heap_.empty(); }

  /// `place` is called if the node is new.
  template <class PlaceOf>
  Pending& at(const NodePtr& node, PlaceOf&& place) {
    if (2 * (heap_.size() + 1) > table_.size()) enlarge();
    Pending*& slot = table_[slot_of(node.get())];
    if (slot) return *slot;
    Pending* fresh = take_spare();
    fresh->node = node;
    fresh->place = place(*node);
    fresh->grads.resize(node->output_count());
    slot = fresh;
    heap_.push_back(fresh);
    std::push_heap(heap_.begin(), heap_.end(), comes_later);
    return *fresh;
  }

  Pending pop() {
    std::pop_heap(heap_.begin(), heap_.end(), comes_later);
    Pending* first = heap_.back();
    heap_.pop_back();
    erase(slot_of(first->node.get()));
    Pending result = std::move(*first);
    spare_.push_back(first);
    return result;
  }

 private:
  static bool comes_later(const Pending* a, const Pending* b) { return a->place < b->place; }

  // An open-addressing hash table with linear probing, at most half full.
  size_t home_of(const Node* node) const {
    constexpr uint64_t fibonacci = 0x9e3779b97f4a7c15u;  // 2^64 divided by the golden ratio
    const auto bits = reinterpret_cast<uintptr_t>(node);
    return (bits >> 6) * fibonacci >> shift_;
  }
  size_t slot_of(const Node* node) const {
    size_t i = home_of(node);
    while (table_[i] && table_[i]->node.get() != node) i = (i + 1) & (table_.size() - 1);
    return i;
  }
  void erase(size_t hole) {
    const size_t mask = table_.size() - 1;
    table_[hole] = nullptr;
    // Entries after the hole move into it unless that would put them before their home slot.
    for (size_t i = (hole + 1) & mask; table_[i]; i = (i + 1) & mask) {
      const size_t home = home_of(table_[i]->node.get());
      if (((i - home) & mask) < ((i - hole) & mask)) continue;
      table_[hole] = std::exchange(table_[i], nullptr);
      hole = i;
    }
  }
  void enlarge() {
    const size_t size = std::max<size_t>(64, 2 * table_.size());
    shift_ = 64 - std::countr_zero(size);
    table_.assign(size, nullptr);
    for (Pending* pending : heap_) table_[slot_of(pending->node.get())] = pending;
  }

  Pending* take_spare() {
    if (spare_.empty()) {
      owned_.push_back(std::make_unique<Pending>());
      return owned_.back().get();
    }
    Pending* pending = spare_.back();
    spare_.pop_back();
    return pending;
  }

  std::vector<Pending*> heap_;
  std::vector<Pending*> table_;
  int shift_ = 64;
  std::vector<std::unique_ptr<Pending>> owned_;
  std::vector<Pending*> spare_;
};

}  // namespace tensora
