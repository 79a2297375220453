#pragma once

#include <memory>
#include <string_view>

#include "tensora/llm/model.h"
#include "tensora/ops/matrix/linear_activation.h"

namespace tensora::llm {

class WeightSource;

/// In what the decoders of one architecture differ from LLaMA's. Biases are taken wherever a file
/// has them.
struct DecoderDesign {
  bool qkv_bias = false;    // q, k and v must have biases
  bool qk_norm = false;     // each head of q and k is normalised before it is rotated
  bool post_norms = false;  // what attention and feed-forward give is normalised too
  Activation activation = Activation::silu;  // of the gate
};

std::shared_ptr<const Model> make_decoder(const ModelConfig& config, const DecoderDesign& design,
                                          WeightSource& weights);

/// What a file of tensora/llm/models defines: `const Architecture NAME_architecture`, for the files
/// whose `general.architecture` is NAME, the file's own name. The list of all of them is generated.
struct Architecture {
  DecoderDesign design = {};
  /// Adds to what all architectures have in common; may be null.
  void (*configure)(ModelConfig& config, const Metadata& metadata) = nullptr;
  /// Makes the model; an architecture that is no decoder of this kind has its own.
  std::shared_ptr<const Model> (*make)(const ModelConfig& config, const DecoderDesign& design,
                                       WeightSource& weights) = make_decoder;
};

/// Throws for an unknown name, and lists the known ones.
const Architecture& find_architecture(std::string_view name);

}  // namespace tensora::llm
