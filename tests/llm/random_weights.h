#pragma once

#include <map>

#include "tensora/core/random.h"
#include "tensora/llm/architecture.h"
#include "tensora/llm/metadata.h"
#include "tensora/llm/weight_source.h"
#include "tensora/llm/weight_type.h"
#include "tensora/tensora.h"

namespace tensora::llm::testing {

/// Small models out of nothing: every tensor that is asked for is there, and its numbers follow
/// from its name.
class RandomWeights final : public WeightSource {
 public:
  explicit RandomWeights(Device device = {}, int64_t positions = 0)
      : WeightSource(device, positions) {}

  bool contains(const std::string& name) const override {
    return name == "output.weight" || (!fused && name.ends_with("ffn_gate.weight")) ||
           (fused && name.ends_with("attn_qkv.weight"));
  }
  void expect(const std::string&, const Shape&) const override {}
  DType matrix_dtype(const std::string&) const override { return dtype; }
  Weight matrix(const std::string& name, const Shape& sizes) override {
    const Tensor numbers =
        drawn(name, {sizes.numel() / sizes.back(), sizes.back()}) * 0.1 + change(name);
    return dtype == kFloat32 ? Weight{numbers}.to(device())
                             : convert_weight(numbers, dtype, device());
  }
  Tensor vector(const std::string& name, const Shape& sizes) override {
    return (drawn(name, sizes) * 0.2 + 1.0).to(device());
  }

  bool fused = false;  // q, k, v and gate, up as one matrix
  DType dtype = kFloat32;
  std::map<std::string, Tensor> changes;  // added to matrices

 private:
  Tensor change(const std::string& name) const {
    const auto found = changes.find(name);
    return found == changes.end() ? tensor(0.0F) : found->second;
  }
  static Tensor drawn(const std::string& name, const Shape& sizes) {
    uint64_t seed = 17;
    for (char letter : name) seed = seed * 31 + static_cast<unsigned char>(letter);
    Generator generator(seed);
    const GeneratorScope scope(generator);
    return randn(sizes, {.dtype = kFloat32});
  }
};

/// The metadata of a small model; `changes` are added under the architecture's name.
inline Metadata small_metadata(const std::string& architecture) {
  Metadata data;
  const std::string prefix = architecture + ".";
  data.set("general.architecture", architecture);
  data.set(prefix + "context_length", 64);
  data.set(prefix + "embedding_length", 64);
  data.set(prefix + "block_count", 2);
  data.set(prefix + "feed_forward_length", 128);
  data.set(prefix + "attention.head_count", 4);
  data.set(prefix + "attention.head_count_kv", 2);
  data.set(prefix + "attention.layer_norm_rms_epsilon", 1e-5);
  data.set(prefix + "vocab_size", 50);
  return data;
}

inline ModelConfig checked_config(const Metadata& metadata) {
  ModelConfig config = ModelConfig::from(metadata);
  config.validate();
  return config;
}

inline std::shared_ptr<const Model> make_model(const ModelConfig& config, WeightSource& weights) {
  const Architecture& architecture = find_architecture(config.architecture);
  return architecture.make(config, architecture.design, weights);
}

}  // namespace tensora::llm::testing
