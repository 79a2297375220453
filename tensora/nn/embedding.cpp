#include "tensora/nn/embedding.h"

#include "tensora/nn/init.h"
#include "tensora/nn/repr.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/nn/embedding.h"
#include "tensora/ops/nn/embedding_bag.h"

namespace tensora::nn {

namespace {

Tensor empty_table(std::string_view layer, int64_t rows, int64_t columns) {
  check(rows >= 0 && columns >= 0, layer, ": expected sizes of at least 0, got ", rows, " and ",
        columns);
  return empty({rows, columns}, FactoryScope::current());
}

const Tensor& checked_table(std::string_view layer, const Tensor& table) {
  check(table.dim() == 2, layer, "::from_pretrained: expected a matrix, got shape ", table.sizes());
  return table;
}

// Counted from the start.
std::optional<int64_t> checked_row(std::string_view layer, std::optional<int64_t> row,
                                   int64_t rows) {
  if (!row) return row;
  check(*row >= -rows && *row < rows, layer, ": padding_idx must be within num_embeddings ", rows,
        ", got ", *row);
  return *row < 0 ? *row + rows : *row;
}

void reset_table(const Tensor& weight, std::optional<int64_t> padding_idx) {
  init::normal_(weight);
  if (padding_idx) init::zeros_(weight.detach().select(0, *padding_idx));
}

// The arguments that both print.
std::string repr_norm(std::optional<double> max_norm, double norm_type, bool by_frequency) {
  std::string text;
  if (max_norm) text += ", max_norm=" + repr(*max_norm);
  if (norm_type != 2) text += ", norm_type=" + repr(norm_type);
  if (by_frequency) text += ", scale_grad_by_freq=True";
  return text;
}

}  // namespace

Embedding::Embedding(const Tensor& table, bool learned, const EmbeddingOptions& given)
    : num_embeddings(table.size(0)), embedding_dim(table.size(1)), options(given) {
  options.padding_idx = checked_row("Embedding", given.padding_idx, num_embeddings);
  weight = register_parameter("weight", table, learned);
}
Embedding::Embedding(int64_t rows, int64_t columns, EmbeddingOptions given)
    : Embedding(empty_table("Embedding", rows, columns), true, given) {
  reset_parameters();
}
Embedding Embedding::from_pretrained(const Tensor& table, PretrainedOptions pretrained,
                                     EmbeddingOptions options) {
  return {checked_table("Embedding", table), !pretrained.freeze, options};
}

void Embedding::reset_parameters() { reset_table(weight, options.padding_idx); }

Tensor Embedding::forward(const Tensor& input) const {
  return embedding(input, weight, options.padding_idx, options.max_norm, options.norm_type,
                   options.scale_grad_by_freq, options.sparse);
}

std::string Embedding::extra_repr() const {
  std::string text = concat(num_embeddings, ", ", embedding_dim);
  if (options.padding_idx) text += concat(", padding_idx=", *options.padding_idx);
  text += repr_norm(options.max_norm, options.norm_type, options.scale_grad_by_freq);
  return options.sparse ? text + ", sparse=True" : text;
}

EmbeddingBag::EmbeddingBag(const Tensor& table, bool learned, EmbeddingBagOptions given)
    : num_embeddings(table.size(0)), embedding_dim(table.size(1)), options(std::move(given)) {
  check(options.mode == "mean" || options.mode == "sum" || options.mode == "max",
        "EmbeddingBag: mode must be mean, sum or max, got '", options.mode, "'");
  options.padding_idx = checked_row("EmbeddingBag", options.padding_idx, num_embeddings);
  weight = register_parameter("weight", table, learned);
}
EmbeddingBag::EmbeddingBag(int64_t rows, int64_t columns, EmbeddingBagOptions given)
    : EmbeddingBag(empty_table("EmbeddingBag", rows, columns), true, std::move(given)) {
  reset_parameters();
}
EmbeddingBag EmbeddingBag::from_pretrained(const Tensor& table, PretrainedOptions pretrained,
                                           EmbeddingBagOptions options) {
  return {checked_table("EmbeddingBag", table), !pretrained.freeze, std::move(options)};
}

void EmbeddingBag::reset_parameters() { reset_table(weight, options.padding_idx); }

Tensor EmbeddingBag::forward(const Tensor& input, const Tensor& offsets,
                             const Tensor& per_sample_weights) const {
  return embedding_bag(input, weight, offsets, options.max_norm, options.norm_type,
                       options.scale_grad_by_freq, options.mode, options.sparse, per_sample_weights,
                       options.include_last_offset, options.padding_idx);
}

std::string EmbeddingBag::extra_repr() const {
  std::string text = concat(num_embeddings, ", ", embedding_dim);
  text += repr_norm(options.max_norm, options.norm_type, options.scale_grad_by_freq);
  text += concat(", mode='", options.mode, "'");
  if (options.sparse) text += ", sparse=True";
  if (options.padding_idx) text += concat(", padding_idx=", *options.padding_idx);
  return text;
}

}  // namespace tensora::nn
