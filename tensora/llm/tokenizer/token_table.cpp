#include "tensora/llm/tokenizer/token_table.h"

#include <bit>

namespace tensora::llm {
namespace {

// Half of the slots stay empty.
size_t slots_for(size_t count) { return std::bit_ceil(count * 2 + 16); }

}  // namespace

void TokenTable::place(Slot slot) {
  size_t at = slot.hash & mask_;
  while (slots_[at].token >= 0) at = (at + 1) & mask_;
  slots_[at] = slot;
}

void TokenTable::reserve(size_t count) {
  if (slots_for(count) <= slots_.size()) return;
  std::vector<Slot> old(slots_for(count));
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  for (const Slot& slot : old)
    if (slot.token >= 0) place(slot);
}

bool TokenTable::insert(std::span<const std::string> texts, Token token) {
  const std::string& text = texts[static_cast<size_t>(token)];
  if (find(texts, text) >= 0) return false;
  reserve(++count_);
  place({hash_text(text), token});
  return true;
}

void PairTable::reserve(size_t count) {
  if (slots_for(count) <= slots_.size()) return;
  std::vector<Slot> old(slots_for(count));
  old.swap(slots_);
  mask_ = slots_.size() - 1;
  count_ = 0;
  for (const Slot& slot : old)
    if (slot.left >= 0) insert(slot.left, slot.right, slot.merge);
}

void PairTable::insert(Token left, Token right, PairMerge merge) {
  if (find(left, right).rank != PairMerge::kNever) return;
  if (slots_for(count_ + 1) > slots_.size()) reserve(count_ + 1);
  ++count_;
  size_t at = hash(left, right) & mask_;
  while (slots_[at].left >= 0) at = (at + 1) & mask_;
  slots_[at] = {left, right, merge};
}

bool WordCache::append(std::string_view word, std::vector<Token>& out) const {
  if (slots_.empty() || word.size() > kLongestWord) return false;
  const uint32_t hash = hash_text(word);
  for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
    const Slot& slot = slots_[at];
    if (slot.text_size == 0) return false;
    if (slot.hash != hash || std::string_view(texts_).substr(slot.text, slot.text_size) != word)
      continue;
    const Token* tokens = tokens_.data() + slot.tokens;
    out.insert(out.end(), tokens, tokens + slot.count);
    return true;
  }
}

void WordCache::insert(std::string_view word, std::span<const Token> tokens) {
  if (word.empty() || word.size() > kLongestWord || tokens.size() > kMostTokens ||
      count_ >= kMostWords)
    return;
  const auto place = [&](const Slot& slot) {
    size_t at = slot.hash & mask_;
    while (slots_[at].text_size != 0) at = (at + 1) & mask_;
    slots_[at] = slot;
  };
  if (slots_for(++count_) > slots_.size()) {
    std::vector<Slot> old(slots_for(count_ + 100));
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old)
      if (slot.text_size != 0) place(slot);
  }
  place({hash_text(word), static_cast<uint32_t>(texts_.size()),
         static_cast<uint32_t>(tokens_.size()), static_cast<uint16_t>(word.size()),
         static_cast<uint16_t>(tokens.size())});
  texts_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

}  // namespace tensora::llm
