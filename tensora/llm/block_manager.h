#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tensora::llm {

struct BlockManagerOptions {
  int64_t blocks = 0;
  int64_t block_size = 32;
  /// Full blocks are kept after their sequence has ended, for another that begins alike.
  bool share_prefixes = true;
  /// A block of which only the first tokens fit, but at least so many, is copied, so that these
  /// need not be computed. 0: none is.
  int64_t least_part = 1;
};

/// How much of a prompt was in the cache when it was asked for.
struct PrefixMatch {
  int64_t cached_tokens = 0;
  /// The position of the first token that differs from what was cached behind the same beginning.
  /// None: nothing was cached there, or nothing differed.
  std::optional<int64_t> broken_at = {};
};

/// The contents of block `from` are to be copied to `to` before the next step.
struct BlockCopy {
  int32_t from = 0, to = 0;
};

struct BlockUse {
  int64_t total = 0;
  int64_t used = 0;    // by sequences
  int64_t cached = 0;  // by nobody; kept for a prompt that begins alike, or until room is needed
  int64_t free = 0;
};

/// Gives the blocks of a paged cache to sequences. It knows numbers of blocks, not their memory.
///
/// Note [Prefixes in blocks]
/// A full block is published under its tokens and the block before it, so a chain of blocks stands
/// for a text from its first token on, and every chain begins with a salt (model, adapter, tenant):
/// texts under different salts never meet. The index is by hash, but a hit counts only if the
/// tokens and the block before are the same, so that a collision costs time and never gives
/// somebody else's text. Published blocks are never written to: a sequence that continues within
/// one gets a copy. Blocks that no sequence uses are given up in the order of their last use, and
/// of a chain the end goes first.
///
/// Not for several threads at once.
class BlockManager {
 public:
  explicit BlockManager(const BlockManagerOptions& options);
  ~BlockManager();
  BlockManager(const BlockManager&) = delete;
  BlockManager& operator=(const BlockManager&) = delete;

  /// The blocks of one sequence, in order. Belongs to the manager that filled it.
  struct Blocks {
    std::vector<int32_t> list;
    int64_t published = 0;  // of the list, from its beginning, are in the index or equal to such
    uint64_t chain = 0;     // the serial number of the last of these
    void* root = nullptr;
  };

  /// Begins a sequence with the cached blocks of its prompt, at most `limit` tokens of them.
  PrefixMatch begin(Blocks& blocks, const std::string& salt, std::span<const int32_t> tokens,
                    int64_t limit);
  /// Makes positions [first, end) writable: adds blocks, and copies one that others see. False, and
  /// nothing has changed, if there are too few.
  bool prepare(Blocks& blocks, int64_t first, int64_t end, std::vector<BlockCopy>& copies);
  /// Offers to others the full blocks of the first tokens, which have been computed.
  void publish(Blocks& blocks, std::span<const int32_t> computed);
  /// A second sequence with the same contents; writing to either makes copies.
  void fork(const Blocks& from, Blocks& to);
  /// Ends a sequence. What is published stays in the cache while there is room.
  void release(Blocks& blocks);
  /// Forgets all that no sequence uses.
  void clear_cache();

  int64_t block_size() const { return options_.block_size; }
  int64_t blocks_of(int64_t tokens) const {
    return (tokens + options_.block_size - 1) / options_.block_size;
  }
  /// Blocks that a sequence could get now.
  int64_t available() const { return use_.free + use_.cached; }
  BlockUse use() const { return use_; }

 private:
  struct Block;
  struct Index;

  int32_t take();
  void unpublish(int32_t block);
  void reference(int32_t block);
  void dereference(int32_t block);
  PrefixMatch match_part(Blocks& blocks, std::span<const int32_t> tokens, int64_t matched,
                         int64_t limit);

  BlockManagerOptions options_;
  BlockUse use_;
  std::vector<Block> blocks_;
  std::unique_ptr<Index> index_;
};

}  // namespace tensora::llm
