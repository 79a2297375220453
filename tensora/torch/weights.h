#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "tensora/llm/projection.h"
#include "tensora/llm/weight_source.h"

namespace tensora::torch {

/// One to three matrices that the same activations are multiplied by.
struct Matrix {
  llm::Projection ours;           // as they were loaded; empty where only `dense` is needed
  std::vector<at::Tensor> dense;  // [rows, K] in the dtype of products; several where they do not
                                  // lie together
  at::Tensor bias;                // [Σ rows], undefined where there is none
  // int8 with a scale per row, for which LibTorch has a kernel: [rows, K] and [rows], in the dtype
  // of products. Then `dense` is empty.
  at::Tensor levels, scales;

  int64_t bytes() const;
};

/// The weight of a root-mean-square norm.
struct Norm {
  Tensor ours;        // float32
  at::Tensor wide;    // the same memory
  at::Tensor narrow;  // in the dtype of products, where that changes no number
};

/// Reads the weights of a decoder. What is wanted is noted and checked first, so that a file that
/// lacks something is refused before the first weight is loaded.
class Loader {
 public:
  /// `dtype`: of products. `keeps`: matrices stay as they are in the file, and `dense` is empty
  /// unless it is the same memory. `keeps_int8`: those with a scale per row stay, where LibTorch's
  /// kernel for them is fast.
  Loader(llm::WeightSource& source, at::ScalarType dtype, bool keeps, bool keeps_int8 = false)
      : source_(source), dtype_(dtype), keeps_(keeps), keeps_int8_(keeps_int8) {}

  bool contains(const std::string& name) const { return source_.contains(name); }
  /// `names` without ".weight", with their numbers of rows. `stacked`: as many matrices of that
  /// many rows, one below the other.
  void matrix(Matrix& target, std::vector<std::pair<std::string, int64_t>> names, int64_t width,
              bool must_have_bias = false, int64_t stacked = 0);
  /// Two matrices of `rows` rows that the file has as one.
  void pair(Matrix& target, const std::string& name, int64_t rows, int64_t width);
  void norm(Norm& target, const std::string& name, int64_t size);
  void run();

  /// Whether a matrix was converted, and whether one of them was quantized.
  bool has_converted() const { return converted_; }
  bool has_dequantized() const { return dequantized_; }
  /// Whether a matrix stayed int8.
  bool has_int8() const { return has_int8_; }

 private:
  struct WantedMatrix {
    Matrix* target;
    std::vector<std::pair<std::string, Shape>> names;
    bool is_pair = false;
  };
  struct WantedNorm {
    Norm* target;
    std::string name;
    int64_t size;
  };
  void load(const WantedMatrix& wanted);
  void load(const WantedNorm& wanted);
  bool stays_int8(Matrix& matrix) const;
  void make_int8(Matrix& matrix);
  void make_dense(Matrix& matrix);

  llm::WeightSource& source_;
  at::ScalarType dtype_;
  bool keeps_, keeps_int8_, converted_ = false, dequantized_ = false, has_int8_ = false;
  std::vector<WantedMatrix> matrices_;
  std::vector<WantedNorm> norms_;
};

/// The matrices in another dtype: the same memory where they have it already.
std::vector<at::Tensor> dense_parts(const Matrix& matrix, at::ScalarType dtype);

}  // namespace tensora::torch
