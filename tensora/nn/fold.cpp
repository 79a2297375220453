#include "tensora/nn/fold.h"

#include "tensora/nn/repr.h"
#include "tensora/ops/conv/im2col.h"

namespace tensora::nn {

namespace {

std::string repr_rest(const FoldOptions& options) {
  return concat(", dilation=", repr(options.dilation), ", padding=", repr(options.padding),
                ", stride=", repr(options.stride));
}

}  // namespace

Tensor Fold::forward(const Tensor& input) const {
  return fold(input, output_size, kernel_size, options.dilation, options.padding, options.stride);
}
std::string Fold::extra_repr() const {
  return concat("output_size=", repr(output_size), ", kernel_size=", repr(kernel_size),
                repr_rest(options));
}

Tensor Unfold::forward(const Tensor& input) const {
  return unfold(input, kernel_size, options.dilation, options.padding, options.stride);
}
std::string Unfold::extra_repr() const {
  return concat("kernel_size=", repr(kernel_size), repr_rest(options));
}

}  // namespace tensora::nn
