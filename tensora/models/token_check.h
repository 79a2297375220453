#pragma once

// Internal header: what the language models have in common.

#include "tensora/base/check.h"
#include "tensora/models/generate.h"
#include "tensora/nn/kv_cache.h"

namespace tensora::models {

inline void check_tokens(std::string_view model, const Tensor& tokens) {
  check(tokens.dim() == 2 && (tokens.dtype() == kInt64 || tokens.dtype() == kInt32), model,
        ": expected tokens of shape [batch, positions] and dtype int64 or int32, got ",
        tokens.dtype(), " ", tokens.sizes());
  check(tokens.size(1) > 0, model, ": expected at least one position, got shape ", tokens.sizes());
}

/// Generates with a cache, in eval mode; the mode is put back afterwards.
template <class Model>
Tensor generate_cached(Model& model, int64_t num_layers, const Tensor& prompt,
                       const GenerateOptions& options) {
  struct Mode {
    explicit Mode(Model& changed) : model(changed), training(changed.is_training()) {
      model.eval();
    }
    ~Mode() { model.train(training); }
    Model& model;
    bool training;
  } const mode(model);
  nn::KVCache cache(num_layers);
  return generate(
      prompt, [&](const Tensor& tokens) { return model.forward_cached(tokens, cache); }, options);
}

}  // namespace tensora::models
