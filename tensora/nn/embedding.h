#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

struct EmbeddingOptions {
  std::optional<int64_t> padding_idx = {};  // a row that starts as zeros and gets no gradient
  std::optional<double> max_norm = {};      // rows are scaled down to this norm when used
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  bool sparse = false;  // the gradient holds only the rows that were used: docs/sparse.md
};
struct PretrainedOptions {
  bool freeze = true;  // the rows are not learned
};

/// The rows of a table that the input's numbers name. The table starts normal.
class Embedding : public Layer<Embedding> {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, EmbeddingOptions options = {});
  /// With this matrix, which it shares, as the table.
  static Embedding from_pretrained(const Tensor& embeddings, PretrainedOptions pretrained = {},
                                   EmbeddingOptions options = {});

  Tensor forward(const Tensor& input) const;
  void reset_parameters();
  std::string extra_repr() const override;

  int64_t num_embeddings, embedding_dim;
  EmbeddingOptions options;  // padding_idx counts from the start
  Parameter weight;          // num_embeddings embedding_dim

 private:
  Embedding(const Tensor& table, bool learned, const EmbeddingOptions& options);
};

struct EmbeddingBagOptions {
  std::optional<double> max_norm = {};
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  std::string mode = "mean";  // or "sum", "max"
  bool include_last_offset = false;
  std::optional<int64_t> padding_idx = {};
  bool sparse = false;  // the gradient holds only the rows that were used: docs/sparse.md
};

/// Sums, averages or takes the maximum of the rows that each bag of numbers names. The table
/// starts normal.
class EmbeddingBag : public Layer<EmbeddingBag> {
 public:
  EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, EmbeddingBagOptions options = {});
  static EmbeddingBag from_pretrained(const Tensor& embeddings, PretrainedOptions pretrained = {},
                                      EmbeddingBagOptions options = {});

  /// `input`: a bag per row, or all bags in a vector with the positions where they begin in
  /// `offsets`. `per_sample_weights`, of the input's shape, are factors for the mode "sum".
  Tensor forward(const Tensor& input, const Tensor& offsets = {},
                 const Tensor& per_sample_weights = {}) const;
  void reset_parameters();
  std::string extra_repr() const override;

  int64_t num_embeddings, embedding_dim;
  EmbeddingBagOptions options;  // padding_idx counts from the start
  Parameter weight;             // num_embeddings embedding_dim

 private:
  EmbeddingBag(const Tensor& table, bool learned, EmbeddingBagOptions options);
};

}  // namespace tensora::nn
