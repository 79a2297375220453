#pragma once

// Internal header: a tape that is kept with its plan, for the next time that the program does the
// same. See Note [Following a tape].

#include "tensora/jit/plan.h"
#include "tensora/jit/plan_key.h"
#include "tensora/jit/stats.h"

namespace tensora::jit {

/// What decides whether a plan serves a tape and is not known while the tape is recorded.
struct TapeEnd {
  std::vector<int> numbers;   // the memories of the operands, before merges
  std::vector<uint8_t> dead;  // per memory: see Tape::is_dead

  explicit TapeEnd(const Tape& tape);
};

class PreparedTape {
 public:
  /// A tape as it was recorded; `end` is from before its plan was found.
  PreparedTape(Tape tape, TapeEnd end, PlanOptions options, std::shared_ptr<const Plan> plan);

  /// Whether the kernel is the next one on the tape; it is then taken.
  bool follow(const DeferredKernel& kernel, bool after_read);
  /// The same for a call that is not described yet: if everything that describes it is as it was,
  /// makes its outputs.
  bool foresee(const OpBase& op, Args inputs, const void* attrs, Device device, Tensors& outputs);
  /// Whether the kernel could follow the first `count` nodes; nothing is taken.
  bool could_follow(const DeferredKernel& kernel, size_t count) const;
  /// Takes the place of another tape, which has the same beginning, with what it has taken.
  bool take_over(PreparedTape& other);
  /// Whether everything was taken, and the plan serves what the program still holds.
  bool is_complete();
  /// What was taken so far, as a tape that goes on in another way.
  Tape leave();
  /// Lets go of everything that was taken.
  void rewind();

  size_t taken() const { return taken_; }
  size_t size() const { return tape_.size(); }
  Tape& tape() { return tape_; }
  const Tape& tape() const { return tape_; }
  const std::shared_ptr<const Plan>& plan() const { return plan_; }
  const Stats& counts() const { return counts_; }
  bool fits(PlanOptions options) const { return options == options_; }

  const DType default_dtype = tensora::default_dtype();  // on which results may depend
  bool is_running = false;  // its kernels run: it cannot be followed meanwhile
  int misses = 0;           // how often the program went on in another way since it last did this
  // The number of this tape, and of the one that came after it last.
  uint64_t number = 0, next = 0;

 private:
  struct Words {
    uint32_t first, count;
    bool none;  // the op has no attributes
  };
  using Met = SmallVector<const IntrusivePtr<Storage>*, 4>;

  void take(const Met& met);
  bool same_bits(const TapeNode& node, const void* attrs) const;
  bool makes_outputs(const TapeNode& node, size_t first) const;
  bool operand_matches(uint32_t position, const Tensor& tensor, Met& met) const;
  bool call_matches(const TapeNode& node, const DeferredKernel& kernel) const;
  bool attrs_match(size_t index, const void* attrs) const;
  bool node_equals(const PreparedTape& other, size_t index) const;

  Tape tape_;
  TapeEnd end_;
  PlanOptions options_;
  std::shared_ptr<const Plan> plan_;
  Stats counts_;
  std::vector<Words> attrs_;  // of the nodes, if plans depend on their attributes
  std::vector<uint64_t> words_;
  // Per operand: whether it was a number when its node was followed last, or kUnknown.
  std::vector<uint8_t> wrapped_;
  std::vector<size_t> bytes_;                          // of the memories
  std::vector<std::pair<const void*, size_t>> apart_;  // captured memory, known not to overlap
  size_t taken_ = 0, met_ = 0;                         // nodes, and memories that they use
};

}  // namespace tensora::jit
