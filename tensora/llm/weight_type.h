#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensora/llm/weight.h"

namespace tensora::llm {

/// A tensor of a model, as far as its type depends on it.
struct WeightPlace {
  std::string name;        // GGUF's
  Shape sizes;             // [.., rows, K]
  DType dtype = kFloat32;  // that it has
  int64_t layers = 0;      // of the model
  bool is_head = false;    // makes the logits: output.weight, or a tied embedding
};

/// What the matrices of a model are converted to, under the names that users know: a dtype's,
/// "int8" and "fp8" (a scale per row), or a mix of K-quants such as "q4_k_m".
class WeightType {
 public:
  /// Leaves everything as it is.
  WeightType() = default;
  /// Throws for an unknown name, and lists the known ones.
  explicit WeightType(std::string_view name);
  static std::vector<std::string> names();

  const std::string& name() const { return name_; }
  bool keeps() const { return name_.empty(); }
  /// The dtype for a weight. Rows that do not consist of whole blocks get a type with smaller ones.
  DType dtype_for(const WeightPlace& place) const;

 private:
  std::string name_;
  DType base_ = kFloat32;
};

/// The weight [rows, K] in another dtype and on a device, made a few rows at a time. int8 and
/// float8_e4m3fn get a scale per row.
Weight convert_weight(const Tensor& weight, DType dtype, Device device);

}  // namespace tensora::llm
