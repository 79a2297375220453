#pragma once

// Convolutions as PyTorch's functions offer them. input: N C L… or C L…; weight: M C/groups K….
// stride, padding and dilation are numbers or lists with a number per spatial dim.

#include <concepts>
#include <string_view>

#include "tensora/dispatch/op_def.h"

namespace tensora {

/// Zeros on both sides of every spatial dim: a number, a list, "valid" (none) or "same" (as many as
/// keep the size; where that is odd, the extra one comes last).
class ConvPadding {
 public:
  template <std::integral Int>
    requires(!std::same_as<Int, bool>)
  ConvPadding(Int zeros) : zeros_(zeros) {}
  ConvPadding(std::initializer_list<int64_t> zeros) : zeros_(zeros) {}
  ConvPadding(const Shape& zeros) : zeros_(zeros) {}
  ConvPadding(const char* rule) : rule_(rule) {}
  ConvPadding(std::string_view rule) : rule_(rule) {}

  bool is_rule() const { return !rule_.empty(); }
  std::string_view rule() const { return rule_; }
  const Shape& zeros() const { return zeros_; }

 private:
  Shape zeros_;
  std::string_view rule_;
};

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const Shape& stride = 1, const ConvPadding& padding = 0, const Shape& dilation = 1,
              int64_t groups = 1);
Tensor conv1d(const Tensor& input, const Tensor& weight);
Tensor conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const Shape& stride = 1, const ConvPadding& padding = 0, const Shape& dilation = 1,
              int64_t groups = 1);
Tensor conv2d(const Tensor& input, const Tensor& weight);
Tensor conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias,
              const Shape& stride = 1, const ConvPadding& padding = 0, const Shape& dilation = 1,
              int64_t groups = 1);
Tensor conv3d(const Tensor& input, const Tensor& weight);

/// The gradient of a convolution with respect to its input, as a function of its own. weight:
/// C M/groups K…. output_padding extends one side of the result, whose size several inputs of a
/// convolution with a stride share; it must be smaller than stride or dilation.
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Shape& stride = 1, const Shape& padding = 0,
                        const Shape& output_padding = 0, int64_t groups = 1,
                        const Shape& dilation = 1);
Tensor conv_transpose1d(const Tensor& input, const Tensor& weight);
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Shape& stride = 1, const Shape& padding = 0,
                        const Shape& output_padding = 0, int64_t groups = 1,
                        const Shape& dilation = 1);
Tensor conv_transpose2d(const Tensor& input, const Tensor& weight);
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Shape& stride = 1, const Shape& padding = 0,
                        const Shape& output_padding = 0, int64_t groups = 1,
                        const Shape& dilation = 1);
Tensor conv_transpose3d(const Tensor& input, const Tensor& weight);

}  // namespace tensora
