#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tensora/llm/batch_builder.h"
#include "tensora/llm/model.h"
#include "tensora/llm/sequence_session.h"
#include "tensora/llm/step_graphs.h"

namespace tensora::llm {

/// The sequences of a `Model`, over a paged cache of its own.
class SequenceRunner final : public SequenceSession {
 public:
  /// The context must not exceed the model's positions.
  SequenceRunner(std::shared_ptr<const Model> model, const SessionOptions& options);

  Tensor forward(std::span<const Part> parts, Rows rows) override;
  Tensor hidden(std::span<const Part> parts, Rows rows) override;
  /// The steps are queued at once, and the device chooses the tokens.
  std::vector<int32_t> generate(std::span<const int32_t> first, int64_t count) override;
  /// Copies keys and values.
  void copy(int64_t from, int64_t to, std::span<const int32_t> tokens) override;
  void truncate(int64_t sequence, int64_t length) override;
  int64_t length(int64_t sequence) const override;
  void synchronize() override;
  int64_t cache_bytes() const override { return cache_.bytes(); }
  GraphStats graph_stats() const override { return steps_.stats(); }

  std::span<const int32_t> tokens(int64_t sequence) const;
  const Model& model() const { return *model_; }

 private:
  const Batch& prepare(std::span<const Part> parts, Rows rows);

  std::shared_ptr<const Model> model_;
  PagedCache cache_;
  BatchBuilder builder_;
  StepGraphs steps_;
  std::vector<Sequence> sequences_;
  Step step_;
};

}  // namespace tensora::llm
