#pragma once

#include <set>

#include "tensora/llm/model.h"
#include "tensora/llm/model_file.h"
#include "tensora/llm/weight_source.h"
#include "tensora/llm/weight_type.h"

namespace tensora::llm {

/// The weights of a file. On the CPU a matrix that keeps its dtype stays where the file is mapped.
class FileWeights final : public WeightSource {
 public:
  FileWeights(const ModelFile& file, const ModelConfig& config, const LoadOptions& options);

  bool contains(const std::string& name) const override;
  void expect(const std::string& name, const Shape& sizes) const override;
  DType matrix_dtype(const std::string& name) const override;
  Weight matrix(const std::string& name, const Shape& sizes) override;
  Tensor vector(const std::string& name, const Shape& sizes) override;
  /// Throws if a GGUF file has a tensor that the model, once it is made, never asked for: the model
  /// would answer as if that were not there. Folders may have more, as in transformers.
  void check_nothing_is_left() const;

 private:
  void report(const std::string& name);

  ModelFile file_;
  WeightType type_;
  int64_t layers_;
  std::function<void(int64_t, int64_t)> progress_;
  int64_t done_ = 0;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace tensora::llm
