#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Blocks of `kernel_size` over an image, as a convolution would visit them: pairs, or one number
/// for both.
struct Im2colAttrs {
  Shape kernel_size = 1;
  Shape dilation = 1;
  Shape padding = 0;
  Shape stride = 1;
};
/// input N C H W; the result is N (C * kernel) blocks.
extern OpDef<Im2colAttrs> im2col_op;

/// The blocks added up in an image of size `output_size`.
struct Col2imAttrs {
  Shape output_size = 1;
  Shape kernel_size = 1;
  Shape dilation = 1;
  Shape padding = 0;
  Shape stride = 1;
};
extern OpDef<Col2imAttrs> col2im_op;

/// PyTorch's nn.functional.unfold: the blocks of a batch of images, or of one image, as columns.
/// There is no form with four arguments: that is the method unfold(dimension, size, step).
Tensor unfold(const Tensor& input, const Shape& kernel_size);
Tensor unfold(const Tensor& input, const Shape& kernel_size, const Shape& dilation,
              const Shape& padding, const Shape& stride);
/// The reverse: images of size `output_size` in which overlapping blocks are added up.
Tensor fold(const Tensor& input, const Shape& output_size, const Shape& kernel_size,
            const Shape& dilation = 1, const Shape& padding = 0, const Shape& stride = 1);
/// The same two, as PyTorch calls the ops.
Tensor im2col(const Tensor& input, const Shape& kernel_size, const Shape& dilation,
              const Shape& padding, const Shape& stride);
Tensor col2im(const Tensor& input, const Shape& output_size, const Shape& kernel_size,
              const Shape& dilation, const Shape& padding, const Shape& stride);

}  // namespace tensora
