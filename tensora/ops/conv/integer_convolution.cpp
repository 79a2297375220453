// Registers nothing: functions of other ops.
#include "tensora/ops/conv/integer_convolution.h"

#include "tensora/dispatch/op.h"
#include "tensora/ops/conv/convolution_geometry.h"
#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/matrix/matmul.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/resample/pad.h"
#include "tensora/ops/shape/permute.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

// The rule of the op decides about shapes: it is asked with tensors that have no data.
Shape result_sizes(const Tensor& input, const Tensor& weight, const Tensor& bias,
                   const ConvolutionAttrs& attrs) {
  const auto outline = [](const Tensor& x) {
    return x.defined() ? empty(x.sizes(), {.dtype = kFloat32, .device = Device("meta")}) : x;
  };
  return apply(convolution_op, {outline(input), outline(weight), outline(bias)}, attrs).sizes();
}

// What one place of the kernel meets: every stride-th element of each spatial dim.
Tensor met_by(const Tensor& x, const Shape& place, const Shape& count,
              const ConvolutionAttrs& attrs) {
  Tensor part = x;
  for (int d = 0; d < place.size(); ++d) {
    const int64_t start = place[d] * attrs.dilation[d];
    part = slice(part, d + 2, start, start + (count[d] - 1) * attrs.stride[d] + 1, attrs.stride[d]);
  }
  return part;
}

// The place after `place` in row-major order; false at the end.
bool advance(Shape& place, const Shape& sizes) {
  for (int d = sizes.size() - 1; d >= 0; --d) {
    if (++place[d] < sizes[d]) return true;
    place[d] = 0;
  }
  return false;
}

Shape spatial_of(const Shape& sizes) {
  Shape result;
  for (int d = 2; d < sizes.size(); ++d) result.push_back(sizes[d]);
  return result;
}

}  // namespace

Tensor integer_convolution(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           const ConvolutionAttrs& given) {
  const Shape sizes = result_sizes(input, weight, bias, given);
  const Shape kernel = spatial_of(weight.sizes());
  const int spatial = kernel.size();
  const ConvolutionAttrs attrs = expanded(given, spatial);
  const int64_t groups = attrs.groups, batch = sizes[0], inner = input.size(1) / groups;
  const int64_t outer = sizes[1] / groups;
  // `large` is the padded input, or what a transposed convolution writes before it is cut.
  std::vector<int64_t> padding;
  Shape large = attrs.transposed ? sizes : input.sizes();
  for (int d = spatial - 1; d >= 0; --d) {
    padding.insert(padding.end(), 2, attrs.padding[d]);
    large[d + 2] += 2 * attrs.padding[d];
  }
  const TensorOptions like{.dtype = input.dtype(), .device = input.device()};
  const Shape small = spatial_of(attrs.transposed ? input.sizes() : sizes);
  const Tensor source = attrs.transposed ? input : pad(input, padding);
  const Tensor result = zeros(attrs.transposed ? large : sizes, like);
  Shape place = Shape::filled(spatial, 0);
  if (kernel.numel() > 0 && result.numel() > 0 && input.numel() > 0) do {
      Tensor factor = weight;
      for (int d = 0; d < spatial; ++d) factor = select(factor, 2, place[d]);
      factor = attrs.transposed ? mT(reshape(factor, {groups, inner, outer}))
                                : reshape(factor, {groups, outer, inner});
      const Tensor read = attrs.transposed ? source : met_by(source, place, small, attrs);
      const Tensor product = matmul(factor, reshape(read, {batch, groups, inner, small.numel()}));
      const Tensor target = attrs.transposed ? met_by(result, place, small, attrs) : result;
      add_(target, reshape(product, target.sizes()));
    } while (advance(place, kernel));
  Tensor kept = result;
  if (attrs.transposed)
    for (int d = 0; d < spatial; ++d) kept = narrow(kept, d + 2, attrs.padding[d], sizes[d + 2]);
  if (!bias.defined()) return contiguous(kept);
  Shape channels = Shape::filled(spatial + 1, 1);
  channels[0] = sizes[1];
  return kept + view(contiguous(bias), channels);
}

}  // namespace tensora
