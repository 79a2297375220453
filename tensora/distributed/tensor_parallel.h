#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/distributed/parameter_part.h"
#include "tensora/nn/module.h"

namespace tensora::distributed {

struct TensorParallelOptions {
  std::shared_ptr<ProcessGroup> group = nullptr;  // null: the world
  /// Between attention and feed-forward each rank has a part of the positions instead of all of
  /// them: norms are computed once, activations take less memory, and the ranks exchange as much.
  /// In a forward that records gradients the number of positions must be a multiple of the ranks;
  /// without gradients every rank has all positions.
  bool sequence_parallel = false;
};

/// A language model whose matrices are divided over the ranks of a group. All ranks get the same
/// tokens and compute the loss that one process computes.
///
///   auto parallel = distributed::shard_model(model);  // a models::LLaMA
///   model(tokens, targets).backward();                // the same numbers on all ranks
///   parallel.clip_grad_norm_(1.0);
///   optimizer.step();
///
/// The embedding and the head are divided along the vocabulary; query, key and value along the
/// heads; gate and up along the feed-forward size; the output of attention and down along their
/// input. A key/value head is on every rank that has query heads of its group. Norms are on all
/// ranks. Nothing has to divide evenly; there must be a query head for each rank.
///
/// The model keeps its type, its handles and the names of its parameters, which become this rank's
/// parts; the parts of the state_dict are those of this rank too. Rank 0's parameters count.
class TensorParallel {
 public:
  explicit TensorParallel(nn::Module& model, TensorParallelOptions options = {});
  /// The model stays divided, and can still be used.
  ~TensorParallel();
  TensorParallel(TensorParallel&&) noexcept;
  TensorParallel& operator=(TensorParallel&&) noexcept;

  ProcessGroup& group() const;

  /// The state_dict of the whole model, on every rank. All ranks call it.
  StateDict whole_state_dict() const;
  /// Takes this rank's parts of the whole model's state_dict. Everything is checked before the
  /// first write.
  void load_whole_state_dict(const StateDict& state);

  /// Calls `body` while every rank has the whole model, which then works as on one rank: to save
  /// or to export it. All ranks call it. What `body` writes to the parameters is lost.
  void with_whole_parameters(const std::function<void()>& body);

  /// clip_grad_norm_ of the whole model; the same norm on all ranks.
  Tensor clip_grad_norm_(double max_norm, double norm_type = 2);
  /// With a GradScaler, before unscale_ or step: a gradient that is infinite or NaN on one rank
  /// becomes so on all.
  void share_overflow();

  /// How each parameter is divided, in the order of the model's parameters.
  const std::vector<ParameterPart>& parts() const;
  /// Null if the model has no parameter of this name.
  const ParameterPart* find_part(const std::string& name) const;
  /// The parts as a table: name, whole shape, placement, this rank's shape.
  std::string describe() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// TensorParallel(model, options).
TensorParallel shard_model(nn::Module& model, TensorParallelOptions options = {});
/// Divides the model over groups of `ranks` ranks of the world that follow each other.
TensorParallel shard_model(nn::Module& model, int ranks);

/// The groups of a world in which every `tensor_ranks` ranks that follow each other have one model.
struct ParallelGroups {
  std::shared_ptr<ProcessGroup> tensor;  // the ranks that have the model together with this one
  std::shared_ptr<ProcessGroup> data;    // the ranks that have the same part of a model
};
/// All ranks of the world call it.
ParallelGroups split_world(int tensor_ranks);

}  // namespace tensora::distributed
