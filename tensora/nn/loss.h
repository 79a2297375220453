#pragma once

#include "tensora/nn/layer.h"
#include "tensora/ops/loss/reduction.h"

// Losses. `reduction` is "mean", "sum" or "none" (each element's own).

namespace tensora::nn {

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

/// The magnitude of the difference.
class L1Loss : public Layer<L1Loss> {
 public:
  explicit L1Loss(LossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  LossOptions options;
};

/// The square of the difference.
class MSELoss : public Layer<MSELoss> {
 public:
  explicit MSELoss(LossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  LossOptions options;
};

struct SmoothL1LossOptions {
  double beta = 1;
  Reduction reduction = Reduction::mean;
};

/// Quadratic where the difference is below `beta`, else linear.
class SmoothL1Loss : public Layer<SmoothL1Loss> {
 public:
  explicit SmoothL1Loss(SmoothL1LossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  SmoothL1LossOptions options;
};

struct HuberLossOptions {
  double delta = 1;
  Reduction reduction = Reduction::mean;
};

/// The same times `delta`.
class HuberLoss : public Layer<HuberLoss> {
 public:
  explicit HuberLoss(HuberLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  HuberLossOptions options;
};

struct CrossEntropyLossOptions {
  Tensor weight = {};  // a factor per class
  int64_t ignore_index = -100;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};

/// Of logits [N, C, …] and class numbers [N, …], or probabilities [N, C, …].
class CrossEntropyLoss : public Layer<CrossEntropyLoss> {
 public:
  explicit CrossEntropyLoss(const CrossEntropyLossOptions& options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  CrossEntropyLossOptions options;
  Buffer weight;
};

struct NLLLossOptions {
  Tensor weight = {};  // a factor per class
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};

/// Of logarithms of probabilities [N, C, …] and class numbers [N, …].
class NLLLoss : public Layer<NLLLoss> {
 public:
  explicit NLLLoss(const NLLLossOptions& options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  NLLLossOptions options;
  Buffer weight;
};

struct PoissonNLLLossOptions {
  bool log_input = true;
  bool full = false;  // with Stirling's approximation of log(target!)
  double eps = 1e-8;
  Reduction reduction = Reduction::mean;
};

/// Of a Poisson distribution with rate exp(input), or input unless `log_input`.
class PoissonNLLLoss : public Layer<PoissonNLLLoss> {
 public:
  explicit PoissonNLLLoss(PoissonNLLLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  PoissonNLLLossOptions options;
};

struct GaussianNLLLossOptions {
  bool full = false;  // with the constant term
  double eps = 1e-6;
  Reduction reduction = Reduction::mean;
};

/// Of a normal distribution with mean input and variance var.
class GaussianNLLLoss : public Layer<GaussianNLLLoss> {
 public:
  explicit GaussianNLLLoss(GaussianNLLLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target, const Tensor& var) const;

  GaussianNLLLossOptions options;
};

struct KLDivLossOptions {
  bool log_target = false;
  Reduction reduction = Reduction::mean;
};

/// Of logarithms of probabilities; the reduction may also be "batchmean".
class KLDivLoss : public Layer<KLDivLoss> {
 public:
  explicit KLDivLoss(KLDivLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  KLDivLossOptions options;
};

struct BCELossOptions {
  Tensor weight = {};  // a factor, broadcast
  Reduction reduction = Reduction::mean;
};

/// Of probabilities and targets from 0 to 1.
class BCELoss : public Layer<BCELoss> {
 public:
  explicit BCELoss(const BCELossOptions& options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  BCELossOptions options;
  Buffer weight;
};

struct BCEWithLogitsLossOptions {
  Tensor weight = {};      // a factor, broadcast
  Tensor pos_weight = {};  // for positive targets
  Reduction reduction = Reduction::mean;
};

/// The same of logits.
class BCEWithLogitsLoss : public Layer<BCEWithLogitsLoss> {
 public:
  explicit BCEWithLogitsLoss(const BCEWithLogitsLossOptions& options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  BCEWithLogitsLossOptions options;
  Buffer weight;
  Buffer pos_weight;
};

struct MarginRankingLossOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};

/// max(0, margin - target (input1 - input2)) for targets 1 and -1.
class MarginRankingLoss : public Layer<MarginRankingLoss> {
 public:
  explicit MarginRankingLoss(MarginRankingLossOptions options = {});
  Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target) const;

  MarginRankingLossOptions options;
};

struct HingeEmbeddingLossOptions {
  double margin = 1;
  Reduction reduction = Reduction::mean;
};

/// The input where the target is 1, max(0, margin - input) where it is -1.
class HingeEmbeddingLoss : public Layer<HingeEmbeddingLoss> {
 public:
  explicit HingeEmbeddingLoss(HingeEmbeddingLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  HingeEmbeddingLossOptions options;
};

struct CosineEmbeddingLossOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};

/// 1 - cos where the target is 1, max(0, cos - margin) where it is -1.
class CosineEmbeddingLoss : public Layer<CosineEmbeddingLoss> {
 public:
  explicit CosineEmbeddingLoss(CosineEmbeddingLossOptions options = {});
  Tensor forward(const Tensor& input1, const Tensor& input2, const Tensor& target) const;

  CosineEmbeddingLossOptions options;
};

/// log(1 + exp(-target input)) for targets 1 and -1.
class SoftMarginLoss : public Layer<SoftMarginLoss> {
 public:
  explicit SoftMarginLoss(LossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  LossOptions options;
};

/// The hinge between each target class and each other class.
class MultiLabelMarginLoss : public Layer<MultiLabelMarginLoss> {
 public:
  explicit MultiLabelMarginLoss(LossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  LossOptions options;
};

struct MultiLabelSoftMarginLossOptions {
  Tensor weight = {};  // a factor per class
  Reduction reduction = Reduction::mean;
};

/// The mean of BCEWithLogitsLoss over the classes.
class MultiLabelSoftMarginLoss : public Layer<MultiLabelSoftMarginLoss> {
 public:
  explicit MultiLabelSoftMarginLoss(const MultiLabelSoftMarginLossOptions& options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  MultiLabelSoftMarginLossOptions options;
  Buffer weight;
};

struct MultiMarginLossOptions {
  Tensor weight = {};  // a factor per class
  int64_t p = 1;
  double margin = 1;
  Reduction reduction = Reduction::mean;
};

/// The hinge, to the power p (1 or 2), between the target class and the others.
class MultiMarginLoss : public Layer<MultiMarginLoss> {
 public:
  explicit MultiMarginLoss(const MultiMarginLossOptions& options = {});
  Tensor forward(const Tensor& input, const Tensor& target) const;

  MultiMarginLossOptions options;
  Buffer weight;
};

struct TripletMarginLossOptions {
  double margin = 1;
  double p = 2;  // of the norm
  double eps = 1e-6;
  bool swap = false;  // |positive - negative| where that is smaller
  Reduction reduction = Reduction::mean;
};

/// max(0, |anchor - positive| - |anchor - negative| + margin).
class TripletMarginLoss : public Layer<TripletMarginLoss> {
 public:
  explicit TripletMarginLoss(TripletMarginLossOptions options = {});
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const;

  TripletMarginLossOptions options;
};

struct TripletMarginWithDistanceLossOptions {
  /// Of two batches of vectors; PairwiseDistance unless given.
  std::function<Tensor(const Tensor&, const Tensor&)> distance_function = {};
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};

/// The same with any distance.
class TripletMarginWithDistanceLoss : public Layer<TripletMarginWithDistanceLoss> {
 public:
  explicit TripletMarginWithDistanceLoss(const TripletMarginWithDistanceLossOptions& options = {});
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const;

  TripletMarginWithDistanceLossOptions options;
};

struct CTCLossOptions {
  int64_t blank = 0;
  bool zero_infinity = false;  // for targets that do not fit into their inputs
  Reduction reduction = Reduction::mean;
};

/// Of logarithms of probabilities [T, N, C] and targets that they spell out with repetitions and
/// blanks.
class CTCLoss : public Layer<CTCLoss> {
 public:
  explicit CTCLoss(CTCLossOptions options = {});
  Tensor forward(const Tensor& log_probs, const Tensor& targets,
                 const std::vector<int64_t>& input_lengths,
                 const std::vector<int64_t>& target_lengths) const;
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) const;

  CTCLossOptions options;
};

}  // namespace tensora::nn
