#include "tensora/llm/grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <string_view>

#include "tensora/base/check.h"
#include "tensora/llm/tokenizer/tokenizer.h"

namespace tensora::llm {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : vocab_size_(tokenizer.vocab_size()) {
  std::vector<std::pair<std::string_view, int32_t>> sorted;
  for (int32_t token = 0; token < vocab_size_; ++token) {
    if (tokenizer.is_end_of_generation(token)) {
      ends_.push_back(token);
      continue;
    }
    const std::string_view bytes = tokenizer.bytes_of(token);
    if (bytes.empty() || tokenizer.is_control(token)) continue;
    if (bytes.size() > std::numeric_limits<uint16_t>::max()) continue;
    sorted.emplace_back(bytes, token);
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<int32_t> path;  // the nodes of the bytes of the last token
  std::string_view last;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[static_cast<size_t>(path.back())].skip = static_cast<int32_t>(nodes_.size());
  };
  for (const auto& [bytes, token] : sorted) {
    const auto common = static_cast<size_t>(
        std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end()).first - last.begin());
    leave(common);
    for (size_t i = common; i < bytes.size(); ++i) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({.byte = static_cast<uint8_t>(bytes[i]),
                        .depth = static_cast<uint16_t>(i + 1),
                        .skip = 0,
                        .tokens_begin = static_cast<int32_t>(tokens_.size())});
    }
    tokens_.push_back(token);
    last = bytes;
    depth_ = std::max(depth_, bytes.size());
  }
  leave(0);
  nodes_.push_back({.byte = 0,
                    .depth = 0,
                    .skip = static_cast<int32_t>(nodes_.size()) + 1,
                    .tokens_begin = static_cast<int32_t>(tokens_.size())});
}

std::shared_ptr<const TokenTrie> TokenTrie::of(const std::shared_ptr<const Tokenizer>& tokenizer) {
  struct Entry {
    std::weak_ptr<const Tokenizer> tokenizer;
    std::shared_ptr<const TokenTrie> trie;
  };
  static std::mutex mutex;
  static std::vector<Entry> entries;
  const std::lock_guard lock(mutex);
  std::erase_if(entries, [](const Entry& entry) { return entry.tokenizer.expired(); });
  for (const Entry& entry : entries)
    if (entry.tokenizer.lock() == tokenizer) return entry.trie;
  entries.push_back({tokenizer, std::make_shared<TokenTrie>(*tokenizer)});
  return entries.back().trie;
}

}  // namespace tensora::llm
