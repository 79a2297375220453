// Registers nothing: functions of other ops.
#include "tensora/ops/pool/fractional_max_pool.h"

#include "tensora/ops/copy/copy.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/index/gather.h"
#include "tensora/ops/operators.h"
#include "tensora/ops/reduce/max_dim.h"
#include "tensora/ops/shape/cat.h"
#include "tensora/ops/shape/expand.h"
#include "tensora/ops/shape/reshape.h"
#include "tensora/ops/shape/slice.h"

namespace tensora {
namespace {

Shape spread(const Shape& numbers, int dims, std::string_view op, std::string_view name) {
  check(numbers.size() == 1 || numbers.size() == dims, op, ": ", name, " must either be a single ",
        "int or ", dims, " ints, got ", numbers);
  return numbers.size() == dims
             ? numbers
             : Shape(std::vector<int64_t>(static_cast<size_t>(dims), numbers[0]));
}

/// Where the windows of one dim begin, for each plane: … out.
Tensor window_starts(const Tensor& samples, int64_t in, int64_t out, int64_t kernel) {
  const TensorOptions like{.dtype = samples.dtype(), .device = samples.device()};
  const Tensor column = unsqueeze(samples, -1);
  Shape one = samples.sizes();
  one.push_back(1);
  const Tensor last = full(one, in - kernel, {.dtype = kInt64, .device = samples.device()});
  if (out == 1) return last;
  // In the samples' precision, as PyTorch computes it: rounding decides where a window begins.
  const Tensor step = full({}, in - kernel, like) / full({}, out - 1, like);
  const Tensor places = arange(out - 1, like);
  const Tensor first = to((places + column) * step, kInt64) - to(column * step, kInt64);
  return cat({first, last}, -1);
}

std::tuple<Tensor, Tensor> pool(std::string_view op, const Tensor& input, const Shape& kernel_size,
                                const Shape& output_size, const Tensor& samples, int dims) {
  check(input.dim() == dims + 1 || input.dim() == dims + 2, op, ": expected input to have ",
        dims + 1, " or ", dims + 2, " dims, got shape ", input.sizes());
  check(input.is_floating_point(), op, ": expected a floating-point dtype, got ", input.dtype());
  if (input.dim() == dims + 1) {
    const auto [values, indices] =
        pool(op, unsqueeze(input, 0), kernel_size, output_size, samples, dims);
    return {squeeze(values, {0}), squeeze(indices, {0})};
  }
  const Shape kernel = spread(kernel_size, dims, op, "kernel_size");
  const Shape out = spread(output_size, dims, op, "output_size");
  const int64_t batch = input.size(0), channels = input.size(1);
  check(samples.sizes() == Shape{batch, channels, dims} && samples.dtype() == input.dtype(), op,
        ": expected _random_samples of shape ", Shape{batch, channels, dims}, " and ",
        input.dtype(), ", got ", samples.sizes(), " and ", samples.dtype());
  // Positions in the flattened plane, [N, C, out..., kernel...], built dim by dim.
  Tensor positions;
  for (int d = 0; d < dims; ++d) {
    const int64_t size = input.size(2 + d);
    check(out[d] > 0 && kernel[d] > 0 && out[d] + kernel[d] - 1 <= size, op, ": pool size ",
          kernel[d], " and output size ", out[d], " are too large relative to input size ", size);
    const int sample = dims == 2 ? 1 - d : d;
    const Tensor starts = window_starts(select(samples, 2, sample), size, out[d], kernel[d]);
    const Tensor inside = arange(kernel[d], {.dtype = kInt64, .device = input.device()});
    Shape sizes{batch, channels};
    for (int i = 0; i < 2 * dims; ++i)
      sizes.push_back(i == d ? out[d] : i == dims + d ? kernel[d] : 1);
    const Tensor own = reshape(unsqueeze(starts, -1) + inside, sizes);
    positions = positions.defined() ? positions * size + own : own;
  }
  Shape windows{batch, channels}, results{batch, channels};
  for (int d = 0; d < dims; ++d) windows.push_back(out[d]);
  results = windows;
  windows.push_back(kernel.numel());
  const Tensor flat = reshape(positions, {batch, channels, out.numel() * kernel.numel()});
  const Tensor planes = flatten(input, 2, -1);
  const Tensor best = argmax(reshape(gather(planes.detach(), -1, flat), windows), -1, true);
  const Tensor chosen = squeeze(gather(reshape(positions, windows), -1, best), {-1});
  const Tensor values = gather(planes, -1, flatten(chosen, 2, -1));
  return {reshape(values, results), chosen};
}

}  // namespace

std::tuple<Tensor, Tensor> fractional_max_pool2d(const Tensor& input, const Shape& kernel_size,
                                                 const Shape& output_size,
                                                 const Tensor& random_samples) {
  return pool("fractional_max_pool2d", input, kernel_size, output_size, random_samples, 2);
}

std::tuple<Tensor, Tensor> fractional_max_pool3d(const Tensor& input, const Shape& kernel_size,
                                                 const Shape& output_size,
                                                 const Tensor& random_samples) {
  return pool("fractional_max_pool3d", input, kernel_size, output_size, random_samples, 3);
}

}  // namespace tensora
