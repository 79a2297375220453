#pragma once

// Small models and their batches, for tests that compare one process with several ranks.

#include <functional>
#include <memory>
#include <string>

#include "tensora/core/determinism.h"
#include "tensora/models/llama.h"
#include "tensora/nn.h"
#include "tests/helpers.h"

namespace tensora::testing {

/// A model and the mean loss of micro-batch `index`, which depends on the index alone.
struct TrainedModel {
  std::shared_ptr<nn::Module> module;
  std::function<Tensor(int64_t index)> loss;
};

struct SmallMlp : nn::Layer<SmallMlp> {
  nn::Linear first = register_module("first", nn::Linear(13, 37));
  nn::Linear second = register_module("second", nn::Linear(37, 41));
  nn::Linear third = register_module("third", nn::Linear(41, 5));
  Tensor forward(const Tensor& x) const { return third(relu(second(relu(first(x))))); }
};

struct SmallCnn : nn::Layer<SmallCnn> {
  nn::Conv2d first = register_module("first", nn::Conv2d(3, 8, 3));
  nn::BatchNorm2d norm = register_module("norm", nn::BatchNorm2d(8));
  nn::Conv2d second = register_module("second", nn::Conv2d(8, 12, 3));
  nn::Linear output = register_module("output", nn::Linear(12 * 4 * 4, 5));
  Tensor forward(const Tensor& x) const {
    return output(relu(second(relu(norm(first(x))))).flatten(1));
  }
};

inline Tensor class_loss(const Tensor& scores, int64_t rows) {
  return cross_entropy(scores, randint(0, 5, {rows}, {.dtype = kInt64}));
}

inline TrainedModel make_model(const std::string& kind) {
  manual_seed(7);
  const auto batch = [](int64_t index, auto body) {
    Generator own(static_cast<uint64_t>(1000 + index));
    const GeneratorScope scope(own);
    return body();
  };
  if (kind == "mlp") {
    auto model = std::make_shared<SmallMlp>();
    return {model, [=](int64_t index) {
              return batch(index, [&] { return class_loss((*model)(randn({6, 13})), 6); });
            }};
  }
  if (kind == "cnn") {
    auto model = std::make_shared<SmallCnn>();
    return {model, [=](int64_t index) {
              return batch(index, [&] { return class_loss((*model)(randn({4, 3, 8, 8})), 4); });
            }};
  }
  // Tied embeddings: a parameter that is used at both ends.
  auto model = std::make_shared<models::LLaMA>(models::LLaMAConfig{.vocab_size = 31,
                                                                   .hidden_size = 24,
                                                                   .intermediate_size = 40,
                                                                   .num_hidden_layers = 2,
                                                                   .num_attention_heads = 4,
                                                                   .num_key_value_heads = 2,
                                                                   .max_position_embeddings = 16,
                                                                   .tie_word_embeddings = true});
  return {model, [=](int64_t index) {
            return batch(index, [&] {
              const Tensor tokens = randint(0, 31, {2, 9}, {.dtype = kInt64});
              return (*model)(tokens.narrow(1, 0, 8).contiguous(),
                              tokens.narrow(1, 1, 8).contiguous());
            });
          }};
}

/// All bits of the parameters.
inline std::vector<std::vector<float>> bits_of(const nn::Module& module) {
  std::vector<std::vector<float>> all;
  for (const Tensor& param : module.parameters()) all.push_back(to_vector<float>(param.detach()));
  return all;
}

}  // namespace tensora::testing
