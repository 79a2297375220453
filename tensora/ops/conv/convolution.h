#pragma once

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// One number per spatial dim, or one for all of them.
struct ConvolutionAttrs {
  Shape stride = 1;
  Shape padding = 0;
  Shape dilation = 1;
  bool transposed = false;
  Shape output_padding = 0;
  int64_t groups = 1;
};
/// (input, weight, bias?): input N C L…, weight Cout C/groups K…; if transposed, C Cout/groups K….
/// Here output_padding must be smaller than stride.
extern OpDef<ConvolutionAttrs> convolution_op;

/// The convolution whose gradient is computed, and the shape of the result.
struct ConvolutionGradAttrs : ConvolutionAttrs {
  Shape sizes;
};
/// (grad, weight): the gradient of the input, of shape `sizes`.
extern OpDef<ConvolutionGradAttrs> convolution_input_grad_op;
/// (grad, input): the gradient of the weight, of shape `sizes`.
extern OpDef<ConvolutionGradAttrs> convolution_weight_grad_op;

/// The convolution of a batch (N C L, N C H W or N C D H W) with a weight, plus a number per output
/// channel. The result is channels-last if input or weight is, else contiguous.
Tensor convolution(const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const Shape& stride, const Shape& padding, const Shape& dilation,
                   bool transposed, const Shape& output_padding, int64_t groups);

}  // namespace tensora
