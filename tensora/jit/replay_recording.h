#pragma once

// Internal header: what a recording of a replayed function holds. See Note [Replay].

#include "tensora/autograd/history.h"
#include "tensora/core/random.h"
#include "tensora/dispatch/deferral.h"
#include "tensora/jit/plan.h"
#include "tensora/jit/replay.h"

namespace tensora::jit {

/// Where the storage of a memory comes from.
struct Origin {
  enum class Kind : uint8_t { argument, captured, number, made } kind = Kind::made;
  size_t argument = 0;             // the first tensor of the call with this storage
  IntrusivePtr<Storage> captured;  // held
  size_t bytes = 0;
  Device device;
  int writes = 0;  // kernels that write to it, without those of host steps

  bool operator==(const Origin& other) const;
};

/// A tensor as a part of a memory.
struct RecordedTensor {
  int memory = -1;  // -1: undefined
  Shape sizes;
  Strides strides;
  int64_t offset = 0;
  DType dtype = DType::float32;
  bool inference = false;

  bool operator==(const RecordedTensor&) const = default;
  /// The tensor in the storages of a run.
  Tensor in(std::span<const IntrusivePtr<Storage>> storages) const;
};

/// A leaf whose gradient the body reads or sets. See Note [Replayed gradients].
struct RecordedLeaf {
  IntrusivePtr<AccumulateGrad> node;  // null: of an argument
  size_t argument = 0;
  bool reads = false;  // what the body does depends on the gradient before it
  bool keeps = false;  // the gradient is the same tensor after the body
  RecordedTensor before, after;

  bool operator==(const RecordedLeaf& other) const {
    return node == other.node && argument == other.argument && reads == other.reads &&
           keeps == other.keeps && before == other.before && after == other.after;
  }
  AccumulateGrad& accumulator(std::span<const Tensor> arguments) const {
    return node ? *node : accumulator_of(arguments[argument]);
  }
};

/// Work of the host between the nodes of a tape; see HostStep.
struct RecordedStep {
  HostStep step;
  size_t first = 0, last = 0;             // the nodes that it called
  std::string settings;                   // when it ran
  std::vector<RecordedTensor> gradients;  // of the leaves that were met so far, when it ran
};

struct Recording::State {
  explicit State(const ReplayCall& call);

  std::span<const Tensor> arguments;
  uint64_t switches = leaf_switches().load(std::memory_order_relaxed);
  PhiloxState before;
  std::string refusal;  // why it cannot be replayed
  bool finished = false;
  Tape tape;                // without storages; never run
  std::vector<Tape> spare;  // copies of it for runs; guarded by the function's mutex
  uint64_t form = 0;        // see Recording::finish
  std::vector<Origin> origins;
  std::vector<const Storage*> storages;  // of the origins; made ones live only during the call
  std::shared_ptr<const Plan> plan;
  std::vector<RecordedTensor> results;
  std::vector<RecordedLeaf> leaves;
  std::vector<RecordedStep> steps;
  std::vector<size_t> first_uses;                         // per memory, the node; with steps only
  uint64_t counters = 0;                                  // of the random stream that a run takes
  std::vector<std::pair<size_t, uint64_t>> random_nodes;  // and where each takes its numbers

  // While the body runs.
  struct Met {
    RecordedLeaf leaf;
    Tensor before;
  };
  /// A tensor by the address of its storage, which the tape holds.
  struct Seen {
    const Storage* storage = nullptr;
    RecordedTensor tensor;
  };
  std::vector<Met> met;
  std::vector<std::vector<Seen>> seen;    // per step: the leaves' gradients
  std::vector<const Storage*> histories;  // that an op recorded for backward wrote to
  bool in_step = false;

  int memory_of(const IntrusivePtr<Storage>& storage, bool made);
  bool is_array(const Tensor& tensor);
  RecordedTensor recorded(const Tensor& tensor);
  void meet(AccumulateGrad& leaf, bool reads);
  void take(const Tape& from, std::shared_ptr<const Plan> its_plan);
  void note_steps();
  void note_leaves();
  void note_histories();
  void note_random();
  /// The tape lets go of the storages that nobody sees after a run when it can.
  void let_go(std::vector<IntrusivePtr<Storage>>& its_storages) const;
  bool is_in_step(size_t node) const;
  void refuse(std::string_view reason) {
    if (refusal.empty()) refusal = reason;
  }
};

size_t argument_of(std::span<const Tensor> tensors, const Storage* storage);
/// Runs a recording whose storages are in the tape, with its host steps. Returns false if one of
/// them called other ops than when it was recorded; everything has run nevertheless.
bool run_with_steps(const Recording::State& recording, Tape& tape,
                    std::vector<IntrusivePtr<Storage>>& storages,
                    std::span<const Tensor> arguments);
/// The gradients that the body, or a host step of it, finds.
void set_gradients(const Recording::State& recording, std::span<const RecordedTensor> gradients,
                   std::span<const IntrusivePtr<Storage>> storages,
                   std::span<const Tensor> arguments);

}  // namespace tensora::jit
