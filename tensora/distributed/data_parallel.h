#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tensora/core/process_group.h"
#include "tensora/nn/module.h"
#include "tensora/optim/optimizer.h"

namespace tensora::distributed {

/// What becomes of the ranks' gradients: their mean, for a loss that is a mean over the rank's own
/// examples; or their sum, for a loss that is divided by a number of all ranks (see
/// sum_over_ranks).
enum class GradientReduction : uint8_t { mean, sum };

struct DataParallelOptions {
  std::shared_ptr<ProcessGroup> group = nullptr;  // null: the world
  GradientReduction reduction = GradientReduction::mean;
  /// What is divided among the ranks. 0: nothing, every rank has everything. 1: the optimizer's
  /// state. 2: the gradients too. 3: the parameters too (see fully_shard).
  int zero_stage = 0;
  /// Gradients travel in buckets. The first is small, so that communication starts early. 0: 1 MiB.
  /// Stage 3 refuses sizes, since its buckets are the blocks.
  int64_t first_bucket_bytes = 0;
  int64_t bucket_bytes = 0;  // 0: 25 MiB on a GPU, 2 MiB on the CPU
  /// bfloat16 or float16: gradients are cast to it for the way, and summed in float32.
  std::optional<DType> wire_dtype = {};
  /// Ranks that use different parameters in a step are an error; otherwise a rank that did not use
  /// one contributes zeros.
  bool strict = false;
  /// Stage 3: the paths of the modules whose parameters are gathered together, used and freed
  /// again. Empty: the members of every ModuleList and Sequential that has no such list above it.
  std::vector<std::string> blocks = {};
};

/// What communication cost, since the beginning or the last reset.
struct DataParallelReport {
  int64_t steps = 0;
  int64_t bytes = 0;                 // of gradients and parameters that this rank sent into calls
  double communication_seconds = 0;  // in calls, from the moment that all ranks had come
  double exposed_seconds = 0;        // of the host, waiting for them

  /// The share of the communication that backward hid; 1 if there was none.
  double overlap() const;
};

/// Trains a model on all ranks of a group as one process would on all of their examples. It
/// attaches to the parameters: the model stays what it is, with its type and the keys of its
/// state_dict.
///
///   auto parallel = distributed::data_parallel(model);
///   for (const auto& [x, y] : batches_of_this_rank) {
///     optimizer.zero_grad();
///     cross_entropy(model(x), y).backward();  // gradients are averaged while backward runs
///     optimizer.step();
///   }
///
/// At the beginning the ranks compare their models, and those of rank 0 are given to all. In every
/// backward, buckets of gradients are reduced as soon as they are complete, in an order on which
/// the ranks agreed in the first one. A parameter that no rank used in a step keeps an undefined
/// gradient, on all ranks.
///
/// Note [One process and many]
/// On the CPU, and elsewhere in deterministic mode, gradients are summed in the order of ranks,
/// ((g0 + g1) + g2) + …, whatever the buckets are, and a mean is that sum times float(1 / ranks).
/// So N ranks give the bits of one process that calls backward for the N micro-batches in that
/// order and then multiplies the gradients, at every ZeRO stage. This holds for float32 and float64
/// gradients without `wire_dtype`.
class DataParallel {
 public:
  explicit DataParallel(nn::Module& model, DataParallelOptions options = {});
  /// Detaches; the ranks need not do so together. At stage 3 the parameters stay divided.
  ~DataParallel();
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) noexcept;

  ProcessGroup& group() const;
  int zero_stage() const;

  /// While it lives, backward leaves the gradients with the rank: for accumulation over several
  /// micro-batches, of which only the last is outside of such a scope.
  class NoSync {
   public:
    explicit NoSync(DataParallel& parallel);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& parallel_;
    bool outer_;
  };
  NoSync no_sync() { return NoSync(*this); }

  /// Stages 1 to 3: lets an optimizer that was made for the model's parameters step this rank's
  /// shards of them instead. Its step ends by giving all ranks the new parameters. For optimizers
  /// that treat every element alike: SGD, Adam and its kin, RMSprop, Adagrad, Adadelta, Lion. At
  /// stage 0 it does nothing. Gradients of shards are cleared by the optimizer's zero_grad, not by
  /// the model's.
  void shard(optim::Optimizer& optimizer);

  /// clip_grad_norm_ of the whole model: the norm of all gradients, the same on all ranks.
  Tensor clip_grad_norm_(double max_norm, double norm_type = 2);
  /// With a GradScaler, between backward and unscale_ or step: if a rank's shards have an infinite
  /// gradient or NaN, those of the others get one too, so that all leave the step out. Needed at
  /// stages 1 to 3 only, and does nothing at stage 0.
  void share_overflow();

  /// For a rank that has no further examples while others have: takes part in their steps, with
  /// gradients of zero, until all ranks have called it. `step` is what the loop does behind
  /// backward: optimizer.step() and zero_grad(), so that the parameters stay equal. A mean is taken
  /// over the ranks that have examples. Not at stage 3.
  void join(const std::function<void()>& step);

  /// Stage 3: while it lives, the parameters are whole, on all ranks: to save or evaluate the
  /// model. What is written to them is lost. All ranks must make one. Otherwise it does nothing.
  class WholeParameters {
   public:
    explicit WholeParameters(DataParallel& parallel);
    ~WholeParameters();
    WholeParameters(const WholeParameters&) = delete;
    WholeParameters& operator=(const WholeParameters&) = delete;

   private:
    DataParallel& parallel_;
  };
  WholeParameters whole_parameters() { return WholeParameters(*this); }
  /// Divides the parameters' present values anew: after a state_dict was loaded under
  /// `whole_parameters`.
  void reload_shards();

  DataParallelReport report() const;
  void reset_report();

  /// A parameter and the part of it, and of its optimizer state, that this rank has. Undefined
  /// `shard`: all of it.
  struct Shard {
    std::string name;
    Tensor parameter, shard;
    int64_t begin = 0, end = 0;  // elements in the order of memory
  };
  std::vector<Shard> shards() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// DataParallel(model, options).
DataParallel data_parallel(nn::Module& model, DataParallelOptions options = {});
/// DataParallel at ZeRO stage 3.
DataParallel fully_shard(nn::Module& model, DataParallelOptions options = {});

/// The sum of a number over the ranks, for example of the tokens that a loss is divided by.
double sum_over_ranks(double value, ProcessGroup& group);

}  // namespace tensora::distributed
