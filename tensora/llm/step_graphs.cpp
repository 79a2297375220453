#include "tensora/llm/step_graphs.h"

#include <algorithm>
#include <chrono>

#include "tensora/autograd/grad_mode.h"
#include "tensora/ops/paged/paged_advance.h"
#include "tensora/ops/sampling/sample_tokens.h"

namespace tensora::llm {
namespace {

constexpr size_t kMostGraphs = 32;
// Before a step is recorded: the first ones make tables and choose algorithms. Where requests come
// and go, a large number of sequences is seldom the same again, and recording takes as long as many
// of its launches, which are short beside such a step.
int64_t steps_before(int64_t sequences) { return 2 + sequences / 16; }

}  // namespace

bool StepGraphs::can_record(const Batch& batch) const {
  const int64_t sequences = batch.lengths.size(0);
  const int64_t rows = batch.logit_rows.defined() ? batch.logit_rows.size(0) : sequences;
  return options_.record && queue_control(model_->device().type) && batch.max_query == 1 &&
         batch.tokens.size(0) == sequences && rows == sequences && batch.adapters.empty();
}

StepGraphs::Graph& StepGraphs::graph_of(const Batch& batch, const PagedCache& cache) {
  const Graph wanted{batch.lengths.size(0), batch.block_table.size(1), batch.tokens.data_ptr(),
                     cache.keys[0].data_ptr(), batch.choice_numbers.defined()};
  const auto found = std::find_if(graphs_.begin(), graphs_.end(), [&](const auto& graph) {
    return graph->sequences == wanted.sequences && graph->width == wanted.width &&
           graph->tokens == wanted.tokens && graph->keys == wanted.keys &&
           graph->chooses == wanted.chooses;
  });
  if (found != graphs_.end()) return **found;
  if (graphs_.size() == kMostGraphs) graphs_.erase(graphs_.begin());
  graphs_.push_back(std::make_unique<Graph>(
      Graph{wanted.sequences, wanted.width, wanted.tokens, wanted.keys, wanted.chooses}));
  return *graphs_.back();
}

void StepGraphs::record(Graph& graph, const Batch& batch, PagedCache& cache) {
  const auto began = std::chrono::steady_clock::now();
  graph.batch = batch;
  graph.batch.logit_rows = {};  // all of them, in their order
  // A bound for all steps to come with this table.
  const int64_t held = batch.block_table.size(1) * cache.block_size();
  graph.batch.max_length = std::min(held, std::max(batch.max_length, model_->positions()));
  graph.work = queue_control(model_->device().type)->record(model_->device(), [&] {
    graph.result = compute(graph.batch, cache);
  });
  ++stats_.recorded;
  stats_.record_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

StepGraphs::Result StepGraphs::compute(const Batch& batch, PagedCache& cache) const {
  Result result{model_->forward(batch, cache), {}};
  if (batch.choice_numbers.defined())
    result.tokens = sample_tokens(result.logits, batch.choice_numbers, batch.choice_integers);
  if (advances(batch))
    paged_advance(batch.tokens, batch.positions, batch.slots, batch.lengths, batch.choice_integers,
                  result.tokens, batch.block_table, cache.block_size());
  return result;
}

bool StepGraphs::advances(const Batch& batch) const {
  return options_.advance && batch.choice_numbers.defined() && batch.max_query == 1 &&
         batch.choice_numbers.size(0) == batch.tokens.size(0);
}

StepGraphs::Result StepGraphs::forward(const Batch& batch, PagedCache& cache) {
  const inference_mode silent;
  Graph* found = can_record(batch) ? &graph_of(batch, cache) : nullptr;
  if (!found || (!found->work && ++found->uses <= steps_before(found->sequences))) {
    ++stats_.eager_steps;
    return compute(batch, cache);
  }
  Graph& graph = *found;
  if (!graph.work) record(graph, batch, cache);
  ++stats_.replays;
  graph.work->replay();
  return graph.result;
}

}  // namespace tensora::llm
