#pragma once

#include <memory>
#include <vector>

#include "tensora/core/queue.h"
#include "tensora/llm/execution_report.h"
#include "tensora/llm/model.h"

namespace tensora::llm {

struct StepOptions {
  bool advance = false;  // see Note [Several steps at once]
  bool record = true;    // off: every step is launched kernel by kernel
};

/// How many steps to queue at once where nobody says: what the host does between two steps counts
/// beside a small model's step on a GPU. On the CPU the host computes the steps.
inline int64_t good_steps_at_once(Device device) { return device.is_cpu() ? 1 : 4; }

/// Note [Steps as graphs]
/// A step that continues sequences by one token each reads the weights once and does little else,
/// in a hundred or more kernels: on a GPU the host is hardly faster in launching them than they are
/// in running. Such steps differ only in the numbers of their batch, whose tensors stay where they
/// are, so the third step of a shape (a later one where it has many sequences) is recorded as a
/// graph, and later ones replay it. A shape is the number of sequences and the width of the block
/// table, which doubles as sequences grow.
///
/// Note [Several steps at once]
/// Where the device chooses the tokens of a step that continues every sequence by one, it also
/// makes the batch of the next step (paged_advance). So several steps can be queued before the
/// host sees the first token, and what the host does between two steps costs nothing. Tokens then
/// come in groups; those behind the end of an answer were computed in vain.
class StepGraphs {
 public:
  struct Result {
    Tensor logits;  // what Model::forward returns
    Tensor tokens;  // chosen by them, where the batch says how
  };

  explicit StepGraphs(std::shared_ptr<const Model> model, const StepOptions& options = {})
      : model_(std::move(model)), options_(options) {}

  /// The batch's tensors must stay where they are from step to step; the result is overwritten by
  /// the next call.
  Result forward(const Batch& batch, PagedCache& cache);
  /// Whether the batch, after `forward`, is that of the next step.
  bool advances(const Batch& batch) const;
  /// Forgets all graphs, and gives their memory back.
  void clear() { graphs_.clear(); }
  const GraphStats& stats() const { return stats_; }

 private:
  struct Graph {
    int64_t sequences, width;
    const void *tokens, *keys;  // where batch and cache are
    bool chooses;
    int64_t uses = 0;
    Batch batch = {};
    Result result = {};
    std::unique_ptr<RecordedWork> work = nullptr;
  };

  bool can_record(const Batch& batch) const;
  Result compute(const Batch& batch, PagedCache& cache) const;
  Graph& graph_of(const Batch& batch, const PagedCache& cache);
  void record(Graph& graph, const Batch& batch, PagedCache& cache);

  std::shared_ptr<const Model> model_;
  StepOptions options_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  GraphStats stats_;
};

}  // namespace tensora::llm
