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

/// A chain of nodes, the common case, never has more than one node waiting: that one stays out of
/// the heap and the table until a second one comes.
class PendingSet {
 public:
  bool empty() const { return !only_ && heap_.empty(); }

  /// `place` is called if the node is new.
  template <class PlaceOf>
  Pending& at(const NodePtr& node, PlaceOf&& place) {
    if (only_ && only_->node == node) return *only_;
    if (!empty()) {
      if (only_) insert(std::exchange(only_, nullptr));
      if (Pending* known = table_[slot_of(node.get())]) return *known;
    }
    Pending* fresh = take_spare();
    fresh->node = node;
    fresh->place = place(*node);
    fresh->grads.resize(node->output_count());
    if (heap_.empty())
      only_ = fresh;
    else
      insert(fresh);
    return *fresh;
  }

  /// The first one in the order of the run; it belongs to the caller until it is given back.
  Pending& take() {
    if (only_) return *std::exchange(only_, nullptr);
    std::pop_heap(heap_.begin(), heap_.end(), comes_later);
    Pending* first = heap_.back();
    heap_.pop_back();
    erase(slot_of(first->node.get()));
    return *first;
  }
  void give_back(Pending& done) {
    done.node.reset();
    done.grads.clear();
    spare_.push_back(&done);
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
  void insert(Pending* pending) {
    if (2 * (heap_.size() + 1) > table_.size()) enlarge();
    table_[slot_of(pending->node.get())] = pending;
    heap_.push_back(pending);
    std::push_heap(heap_.begin(), heap_.end(), comes_later);
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

  Pending* only_ = nullptr;  // the heap is empty while it is set
  std::vector<Pending*> heap_;
  std::vector<Pending*> table_;
  int shift_ = 64;
  std::vector<std::unique_ptr<Pending>> owned_;
  std::vector<Pending*> spare_;
};

}  // namespace tensora
