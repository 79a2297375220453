#pragma once

#include <functional>
#include <string>

#include "tensora/llm/weight.h"

namespace tensora::llm {

struct ModelShard;

/// Where a model gets its weights from: a file, or random numbers. Names are GGUF's.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual bool contains(const std::string& name) const = 0;
  /// Throws unless the tensor is there and has these sizes. Takes no memory.
  virtual void expect(const std::string& name, const Shape& sizes) const = 0;
  /// The dtype that the matrix will have.
  virtual DType matrix_dtype(const std::string& name) const = 0;
  /// A matrix on the device, as it is multiplied; a stack of matrices as one, below one another.
  virtual Weight matrix(const std::string& name, const Shape& sizes) = 0;
  /// Biases and the weights of norms: float32 on the device.
  virtual Tensor vector(const std::string& name, const Shape& sizes) = 0;

  /// The part of the model that these weights are of; null: they are those of the whole model.
  virtual const ModelShard* shard() const { return nullptr; }

  Device device() const { return device_; }
  /// How many positions the model must be ready for; 0: as many as it was trained for.
  int64_t positions() const { return positions_; }

 protected:
  WeightSource(Device device, int64_t positions) : device_(device), positions_(positions) {}

 private:
  Device device_;
  int64_t positions_;
};

}  // namespace tensora::llm
