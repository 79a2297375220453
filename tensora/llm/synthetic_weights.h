#pragma once

#include <map>

#include "tensora/llm/model_config.h"
#include "tensora/llm/weight_source.h"
#include "tensora/llm/weight_type.h"

namespace tensora::llm {

struct SyntheticOptions {
  bool tied = false;      // the embedding is the head too
  bool fused = false;     // q, k and v are one matrix, and so are gate and up
  int64_t positions = 0;  // see WeightSource
};

/// Random weights of any shape, in blocks that are as valid as those of a file: a few thousand
/// numbers are drawn and quantized, and repeated until a matrix is full. The same every time.
class SyntheticWeights final : public WeightSource {
 public:
  SyntheticWeights(const ModelConfig& config, WeightType type, Device device,
                   SyntheticOptions options);

  bool contains(const std::string& name) const override;
  void expect(const std::string&, const Shape&) const override {}
  DType matrix_dtype(const std::string& name) const override;
  Weight matrix(const std::string& name, const Shape& sizes) override;
  Tensor vector(const std::string& name, const Shape& sizes) override;

 private:
  DType dtype_of(const std::string& name, const Shape& sizes) const;
  /// A matrix of one width and dtype that others are filled with.
  const Weight& pattern(DType dtype, int64_t width);

  WeightType type_;
  int64_t layers_, hidden_size_, queries_, feed_forward_;
  SyntheticOptions options_;
  std::map<std::pair<DType, int64_t>, Weight> patterns_;
};

}  // namespace tensora::llm
