#include "tensora/llm/block_manager.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <unordered_map>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

// Where chains begin. It lives as long as a sequence or a published block is under it.
struct Root {
  std::string salt;
  uint64_t serial = 0;
  int64_t users = 0;
};

constexpr int32_t kNone = -1;

uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93u;
  return value ^ (value >> 29);
}

uint64_t hash_of(uint64_t parent, std::span<const int32_t> tokens) {
  uint64_t hash = mixed(parent + 0x9e3779b97f4a7c15u);
  for (const int32_t token : tokens) hash = mixed(hash ^ static_cast<uint32_t>(token)) + parent;
  return hash;
}

int64_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t most = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin()).first -
         a.begin();
}

}  // namespace

struct BlockManager::Block {
  int32_t references = 0;
  // Of those without references: neighbours in the order of use, or the next free block.
  int32_t older = kNone, newer = kNone;
  uint64_t serial = 0;  // 0: not published
  uint64_t parent = 0;
  std::vector<int32_t> tokens;  // if published
  Root* root = nullptr;
};

struct BlockManager::Index {
  /// Of the blocks behind one parent, those that agree longest with a text stand beside its place
  /// in this order. Behind a root there may be thousands, one per text that is cached.
  struct ByTokens {
    using is_transparent = void;
    using Tokens = std::span<const int32_t>;

    const std::vector<Block>* blocks;

    Tokens of(int32_t block) const { return (*blocks)[static_cast<size_t>(block)].tokens; }
    static Tokens of(Tokens tokens) { return tokens; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::ranges::lexicographical_compare(of(a), of(b));
    }
  };
  using Children = std::set<int32_t, ByTokens>;

  std::unordered_map<std::string, Root> roots;
  std::unordered_map<uint64_t, int32_t> by_hash;
  std::unordered_map<uint64_t, Children> children;  // of a serial number
  uint64_t last_serial = 0;
  int32_t first_free = kNone;
  int32_t oldest = kNone, newest = kNone;  // of the blocks that are only kept

  Root& root(const std::string& salt) {
    Root& root = roots[salt];
    if (root.serial == 0) root = {salt, ++last_serial, 0};
    return root;
  }
  void leave(Root* root) {
    if (--root->users == 0) roots.erase(std::string(root->salt));
  }
};

BlockManager::BlockManager(const BlockManagerOptions& options)
    : options_(options), index_(std::make_unique<Index>()) {
  check(options.blocks > 0 && options.blocks < (int64_t{1} << 31),
        "block_manager: expected from 1 to 2^31 blocks, got ", options.blocks);
  check(options.block_size > 0 && options.block_size <= 1 << 20,
        "block_manager: expected a block size from 1 to ", 1 << 20, ", got ", options.block_size);
  check(options.least_part >= 0, "block_manager: least_part must not be negative, got ",
        options.least_part);
  blocks_.resize(static_cast<size_t>(options.blocks));
  for (int32_t block = static_cast<int32_t>(options.blocks) - 1; block >= 0; --block) {
    blocks_[static_cast<size_t>(block)].newer = index_->first_free;
    index_->first_free = block;
  }
  use_ = {.total = options.blocks, .free = options.blocks};
}

BlockManager::~BlockManager() = default;

// A block for writing, with one reference; there must be one.
int32_t BlockManager::take() {
  ensure(available() > 0, "block_manager: no block is left");
  if (index_->first_free == kNone) unpublish(index_->oldest);
  const int32_t taken = index_->first_free;
  Block& block = blocks_[static_cast<size_t>(taken)];
  index_->first_free = block.newer;
  block.newer = kNone;
  block.references = 1;
  --use_.free;
  ++use_.used;
  return taken;
}

void BlockManager::reference(int32_t number) {
  Block& block = blocks_[static_cast<size_t>(number)];
  if (block.references++ > 0) return;
  // It was only kept: out of the order of use.
  (block.older == kNone ? index_->oldest : blocks_[static_cast<size_t>(block.older)].newer) =
      block.newer;
  (block.newer == kNone ? index_->newest : blocks_[static_cast<size_t>(block.newer)].older) =
      block.older;
  block.older = block.newer = kNone;
  --use_.cached;
  ++use_.used;
}

void BlockManager::dereference(int32_t number) {
  Block& block = blocks_[static_cast<size_t>(number)];
  ensure(block.references > 0, "block_manager: block ", number, " is released twice");
  if (--block.references > 0) return;
  --use_.used;
  if (block.serial == 0) {
    block.newer = index_->first_free;
    index_->first_free = number;
    ++use_.free;
    return;
  }
  block.older = index_->newest;
  block.newer = kNone;
  (index_->newest == kNone ? index_->oldest : blocks_[static_cast<size_t>(index_->newest)].newer) =
      number;
  index_->newest = number;
  ++use_.cached;
}

// Makes a block that is only kept a free one.
void BlockManager::unpublish(int32_t number) {
  Block& block = blocks_[static_cast<size_t>(number)];
  index_->by_hash.erase(hash_of(block.parent, block.tokens));
  const auto siblings = index_->children.find(block.parent);
  siblings->second.erase(number);
  if (siblings->second.empty()) index_->children.erase(siblings);
  reference(number);
  index_->leave(block.root);
  block.serial = 0;
  block.root = nullptr;
  block.tokens.clear();
  dereference(number);
}

PrefixMatch BlockManager::begin(Blocks& blocks, const std::string& salt,
                                std::span<const int32_t> tokens, int64_t limit) {
  ensure(blocks.list.empty() && blocks.root == nullptr, "block_manager: the sequence has begun");
  Root& root = index_->root(salt);
  ++root.users;
  blocks.root = &root;
  blocks.chain = root.serial;
  blocks.published = 0;
  if (!options_.share_prefixes) return {};
  limit = std::min<int64_t>(limit, static_cast<int64_t>(tokens.size()));
  const size_t size = static_cast<size_t>(options_.block_size);
  int64_t matched = 0;
  while (matched + options_.block_size <= limit) {
    const auto part = tokens.subspan(static_cast<size_t>(matched), size);
    const auto found = index_->by_hash.find(hash_of(blocks.chain, part));
    if (found == index_->by_hash.end()) break;
    const Block& block = blocks_[static_cast<size_t>(found->second)];
    if (block.parent != blocks.chain || !std::ranges::equal(block.tokens, part)) break;
    reference(found->second);
    blocks.list.push_back(found->second);
    blocks.chain = block.serial;
    ++blocks.published;
    matched += options_.block_size;
  }
  return match_part(blocks, tokens, matched, limit);
}

// The block behind the matched ones that agrees longest. It tells where the prefix breaks; what
// agrees is used, too, by a copy that `prepare` makes.
PrefixMatch BlockManager::match_part(Blocks& blocks, std::span<const int32_t> tokens,
                                     int64_t matched, int64_t limit) {
  const auto behind = index_->children.find(blocks.chain);
  if (behind == index_->children.end()) return {matched, {}};
  const auto rest = tokens.subspan(static_cast<size_t>(matched));
  int64_t longest = -1;
  int32_t best = kNone;
  const Index::Children& children = behind->second;
  const auto place = children.lower_bound(rest);
  const auto first = place == children.begin() ? place : std::prev(place);
  const auto last = place == children.end() ? place : std::next(place);
  for (auto child = first; child != last; ++child) {
    const int64_t length = common_length(blocks_[static_cast<size_t>(*child)].tokens, rest);
    if (length > longest) {
      longest = length;
      best = *child;
    }
  }
  PrefixMatch match{matched, {}};
  if (longest < options_.block_size && longest < static_cast<int64_t>(rest.size()))
    match.broken_at = matched + longest;
  const int64_t part = std::min(longest, limit - matched);
  if (part <= 0 || options_.least_part == 0 || part < options_.least_part) return match;
  reference(best);
  blocks.list.push_back(best);
  match.cached_tokens += part;
  return match;
}

bool BlockManager::prepare(Blocks& blocks, int64_t first, int64_t end,
                           std::vector<BlockCopy>& copies) {
  const int64_t have = static_cast<int64_t>(blocks.list.size());
  const int64_t from = first / options_.block_size, to = blocks_of(end);
  const auto is_shared = [&](int64_t place) {
    const Block& block = blocks_[static_cast<size_t>(blocks.list[static_cast<size_t>(place)])];
    return block.references > 1 || block.serial != 0;
  };
  int64_t needed = std::max<int64_t>(0, to - have);
  for (int64_t place = from; place < std::min(have, to); ++place) needed += is_shared(place);
  if (needed > available()) return false;
  for (int64_t place = from; place < std::min(have, to); ++place) {
    if (!is_shared(place)) continue;
    int32_t& block = blocks.list[static_cast<size_t>(place)];
    const int32_t copy = take();
    // Positions before `first` are in the old block.
    if (place * options_.block_size < first) copies.push_back({block, copy});
    dereference(block);
    block = copy;
  }
  while (static_cast<int64_t>(blocks.list.size()) < to) blocks.list.push_back(take());
  return true;
}

void BlockManager::publish(Blocks& blocks, std::span<const int32_t> computed) {
  if (!options_.share_prefixes) return;
  const size_t size = static_cast<size_t>(options_.block_size);
  for (size_t place = static_cast<size_t>(blocks.published); (place + 1) * size <= computed.size();
       ++place) {
    const auto tokens = computed.subspan(place * size, size);
    const int32_t number = blocks.list[place];
    const auto [entry, is_new] = index_->by_hash.try_emplace(hash_of(blocks.chain, tokens), number);
    Block& block = blocks_[static_cast<size_t>(entry->second)];
    if (is_new) {
      block.serial = ++index_->last_serial;
      block.parent = blocks.chain;
      block.tokens.assign(tokens.begin(), tokens.end());
      block.root = static_cast<Root*>(blocks.root);
      ++block.root->users;
      index_->children.try_emplace(blocks.chain, Index::ByTokens{&blocks_})
          .first->second.insert(number);
    } else if (block.parent != blocks.chain || !std::ranges::equal(block.tokens, tokens)) {
      return;  // two texts with one hash: the later one is not shared
    }
    blocks.chain = block.serial;
    ++blocks.published;
  }
}

void BlockManager::fork(const Blocks& from, Blocks& to) {
  ensure(to.list.empty() && to.root == nullptr, "block_manager: the sequence has begun");
  to = from;
  for (const int32_t block : to.list) reference(block);
  if (to.root) ++static_cast<Root*>(to.root)->users;
}

void BlockManager::release(Blocks& blocks) {
  // The end of a chain is of no use without its beginning: it is to be given up first.
  for (auto block = blocks.list.rbegin(); block != blocks.list.rend(); ++block) dereference(*block);
  if (blocks.root) index_->leave(static_cast<Root*>(blocks.root));
  blocks = {};
}

void BlockManager::clear_cache() {
  while (index_->oldest != kNone) unpublish(index_->oldest);
}

}  // namespace tensora::llm
