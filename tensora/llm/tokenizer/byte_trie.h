#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

/// Tokens by text, for finding those that a text begins with.
class ByteTrie {
 public:
  ByteTrie() : values_{-1} {}

  /// A text that is there keeps its token.
  void insert(std::string_view text, Token token);
  bool empty() const { return values_.size() == 1; }
  /// Calls body(length, token) for each text that `text` begins with, the shortest first.
  template <class Body>
  void prefixes(std::string_view text, const Body& body) const {
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) return;
      if (values_[node] >= 0) body(i + 1, values_[node]);
    }
  }

 private:
  struct Slot {
    uint32_t key = 0, node = 0;  // node 0, the root, is nobody's child
  };
  static size_t hash(uint32_t key) { return static_cast<size_t>(key * 0x9E3779B1u >> 7); }
  uint32_t child(uint32_t parent, uint8_t byte) const {
    if (slots_.empty()) return 0;
    const uint32_t key = parent << 8 | byte;
    for (size_t at = hash(key) & mask_;; at = (at + 1) & mask_)
      if (slots_[at].node == 0 || slots_[at].key == key) return slots_[at].node;
  }
  void place(Slot slot);

  std::vector<Slot> slots_;
  std::vector<Token> values_;  // by node
  size_t mask_ = 0;
};

}  // namespace tensora::llm
