#include "tensora/llm/tokenizer/byte_trie.h"

#include "tensora/base/check.h"

namespace tensora::llm {

void ByteTrie::place(Slot slot) {
  size_t at = hash(slot.key) & mask_;
  while (slots_[at].node != 0) at = (at + 1) & mask_;
  slots_[at] = slot;
}

void ByteTrie::insert(std::string_view text, Token token) {
  uint32_t node = 0;
  for (const char byte : text) {
    const uint32_t known = child(node, static_cast<uint8_t>(byte));
    if (known != 0) {
      node = known;
      continue;
    }
    check(values_.size() < (1u << 24), "the texts of the tokens are too long");
    const auto fresh = static_cast<uint32_t>(values_.size());
    values_.push_back(-1);
    if (values_.size() * 2 > slots_.size()) {
      std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
      old.swap(slots_);
      mask_ = slots_.size() - 1;
      for (const Slot& slot : old)
        if (slot.node != 0) place(slot);
    }
    place({node << 8 | static_cast<uint8_t>(byte), fresh});
    node = fresh;
  }
  if (values_[node] < 0) values_[node] = token;
}

}  // namespace tensora::llm
