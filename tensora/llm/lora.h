#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "tensora/llm/model.h"

namespace tensora::llm {

/// A low-rank addition to some matrices of a model: x Wᵀ becomes x Wᵀ + scale · (x downᵀ) upᵀ. The
/// model itself is not changed, so each request of a batch can have its own adapter.
class LoraAdapter {
 public:
  struct Pair {
    Tensor down;  // [rank, K], of the model's activation dtype and on its device
    Tensor up;    // [N, rank]
    double scale = 1;
  };

  /// A PEFT folder (adapter_config.json and adapter_model.safetensors) or a GGUF adapter. Throws
  /// where a pair does not belong to a matrix of the model, or does not fit it.
  static std::shared_ptr<const LoraAdapter> load(const std::string& path, const Model& model);

  /// The pair of a matrix, named as in GGUF without ".weight"; null where there is none.
  const Pair* find(const std::string& name) const {
    const auto found = pairs_.find(name);
    return found == pairs_.end() ? nullptr : &found->second;
  }
  size_t size() const { return pairs_.size(); }
  int64_t bytes() const;
  const std::string& path() const { return path_; }

 private:
  LoraAdapter() = default;

  std::unordered_map<std::string, Pair> pairs_;
  std::string path_;
};

}  // namespace tensora::llm
