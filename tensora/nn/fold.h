#pragma once

#include "tensora/nn/layer.h"

namespace tensora::nn {

/// One number stands for both dims.
struct FoldOptions {
  Shape dilation = 1;
  Shape padding = 0;
  Shape stride = 1;
};

/// Adds up overlapping blocks, the columns of [N, C kh kw, L], to images of size `output_size`.
class Fold : public Layer<Fold> {
 public:
  Fold(const Shape& output_size, const Shape& kernel_size, const FoldOptions& options = {})
      : output_size(output_size), kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  Shape output_size, kernel_size;
  FoldOptions options;
};

/// The blocks of images [N, C, H, W] as columns.
class Unfold : public Layer<Unfold> {
 public:
  explicit Unfold(const Shape& kernel_size, const FoldOptions& options = {})
      : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& input) const;
  std::string extra_repr() const override;

  Shape kernel_size;
  FoldOptions options;
};

}  // namespace tensora::nn
