#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tensora/llm/block_manager.h"
#include "tensora/llm/sampling/token_choice.h"

namespace tensora::llm {

class LoraAdapter;

/// A text that is being read and continued. The scheduler decides which of its tokens are computed
/// when, and keeps its blocks; what it is for, the engine knows.
struct Sequence {
  std::vector<int32_t> tokens;  // the prompt, then what was generated
  std::vector<int32_t> draft;   // a guess how it goes on, computed together with the last token
  std::string salt;             // see Note [Prefixes in blocks]
  int64_t computed = 0;         // tokens whose keys and values are in the cache
  int64_t prompt_size = 0;      // tokens that were given, not generated
  int64_t limit = 0;            // it will not grow beyond this many tokens
  std::shared_ptr<const LoraAdapter> adapter = nullptr;
  double adapter_scale = 1;
  BlockManager::Blocks blocks;
  std::vector<TokenChoice> choices;  // of the tokens after a step's logits, or none
  int64_t ahead = 0;                 // how many more tokens the step's blocks are to hold
  int64_t pending = 0;               // see Note [Overlapped steps]: tokens that the host misses
  int64_t row = 0;                   // which of the last step's logits its next token follows
  PrefixMatch match;                 // of its first admission
  bool was_admitted = false;
  /// The logits of all tokens of its prompt are wanted. Whoever takes the last of them sets it back
  /// before `commit`.
  bool scores_prompt = false;
  int64_t preemptions = 0;

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  bool is_reading() const { return size() + pending - computed > 1; }
};

/// Tokens [first, first + count) of a sequence, of which the last ones may be its draft's.
struct Slice {
  Sequence* sequence = nullptr;
  int64_t first = 0, count = 0;
  int64_t logits = 0;  // how many of the last tokens' logits are wanted
};

/// What the next forward computes.
struct Step {
  std::vector<Slice> slices;
  std::vector<BlockCopy> copies;  // before it
  int64_t tokens = 0;
};

struct SchedulerOptions {
  int64_t max_sequences = 8;  // computed together; others wait
  int64_t max_tokens = 512;   // of a step: longer prompts are read in parts
  /// See Note [Batch invariance].
  bool batch_invariant = false;
  /// A prompt that begins like one that is just being read waits until that part can be shared.
  bool share_prefixes = true;
};

/// Note [Batch invariance]
/// On the CPU a token's logits have the same bits in every batch, on any number of threads: each
/// kernel of a decoder adds the numbers of an element in an order that depends on the element alone
/// (Note [Products in chunks], Note [Same bits in every batch], rms_row). A request without an
/// adapter is therefore answered alike alone, beside others, after a cached prefix and with draft
/// tokens. With a LoRA adapter in the batch its products are general matrix products, whose order
/// depends on the number of rows.
///
/// On CUDA kernels are chosen by the number of rows and round differently, so the same prompt may
/// be continued differently beside other requests. In batch-invariant mode the shapes that a token
/// is computed with depend on its own request alone, and so does the result, whatever the kernels
/// do: a step computes one sequence; prompts are read in parts that begin at multiples of
/// max_tokens, and only such whole parts are shared; a sequence gets all the blocks that it may
/// need at once, so that it is never read a second time. The cost: requests do not share the
/// reading of the weights.

/// Continuous batching: sequences enter and leave at every step. Those being continued come first,
/// so that a long prompt does not stop the others; prompts share what is left of the step. Where
/// blocks run out, the youngest sequence gives its own back and is read again later.
///
/// Not for several threads at once.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, BlockManager& blocks);

  /// The sequence must fit the cache, and live until it is removed.
  void add(Sequence& sequence);
  /// At any time between two steps.
  void remove(Sequence& sequence);
  /// No token of it is computed until `resume`. Its place is free for another, and so are its
  /// blocks as soon as somebody needs them; then it is read again.
  void pause(Sequence& sequence);
  void resume(Sequence& sequence);
  /// Plans the next step. Empty only if there is no sequence that does not pause, or if all memory
  /// is held by those that do, in batch-invariant mode.
  void plan(Step& step);
  /// After the step was computed: its tokens are in the cache, but for drafts that were refused,
  /// whose number each slice's sequence says by its size.
  void commit(const Step& step);
  /// Instead of commit, where steps overlap (see Note [Overlapped steps]): the step has been
  /// queued, and `plan` may follow. `publish` comes when its tokens are known. Slices without a
  /// sequence have lost it meanwhile.
  void queued(const Step& step);
  void publish(const Step& step);
  /// Whether a step can be planned without taking blocks from anybody.
  bool has_room() const { return blocks_.available() >= running(); }
  /// The tokens changed other than by growing: it is read again.
  void restart(Sequence& sequence);

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  /// Whether there is a sequence that does not pause.
  bool has_work() const { return !running_.empty() || !waiting_.empty(); }

 private:
  void admit(Step& step);
  bool is_being_read(const Sequence& sequence, const std::vector<const Sequence*>& readers) const;
  bool begin(Sequence& sequence, Step& step);
  void preempt(Sequence& sequence);
  bool reclaim();
  bool continue_one(Sequence& sequence, Step& step);
  void read_part(Sequence& sequence, Step& step);
  void plan_one(Step& step);

  SchedulerOptions options_;
  BlockManager& blocks_;
  std::vector<Sequence*> running_;  // oldest first
  std::deque<Sequence*> waiting_;   // oldest first
  std::vector<Sequence*> paused_;   // in the order in which they were
  size_t turn_ = 0;                 // whose it is, where each step is one sequence's
};

}  // namespace tensora::llm
