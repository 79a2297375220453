#include "tensora/nn/fractional_max_pool.h"

#include "tensora/nn/conv_common.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/random/random.h"
#include "tensora/ops/shape/cat.h"

namespace tensora::nn {

namespace {

// Where the windows of one dim begin, N C out: steps of (in - kernel) / (out - 1) on average,
// rounded down from a random start. The last window ends with the input.
Tensor window_starts(const Tensor& samples /* N C */, int64_t in, int64_t kernel, int64_t out) {
  const Tensor last = full({samples.size(0), samples.size(1), 1}, in - kernel,
                           {.dtype = kInt64, .device = samples.device()});
  if (out == 1) return last;
  const double step = static_cast<double>(in - kernel) / static_cast<double>(out - 1);
  const Tensor start = samples.unsqueeze(-1);
  const Tensor counted =
      arange(out - 1, {.dtype = samples.dtype(), .device = samples.device()}).add(start).mul(step);
  return cat({counted.to(kInt64).sub(start.mul(step).to(kInt64)), last}, -1);
}

}  // namespace

template <int Dims>
FractionalMaxPool<Dims>::FractionalMaxPool(const Shape& kernel,
                                           const FractionalMaxPoolOptions& given)
    : options(given) {
  const std::string layer = name();
  kernel_size = per_dim(layer, "kernel_size", kernel, Dims, 1);
  check(given.output_size.has_value() != given.output_ratio.has_value(), layer,
        ": expected one of output_size and output_ratio");
  if (given.output_size)
    options.output_size = per_dim(layer, "output_size", *given.output_size, Dims, 1);
  if (given.output_ratio) {
    const auto& ratios = given.output_ratio->factors();
    check(ratios.size() == 1 || ratios.size() == Dims, layer, ": output_ratio must be one number ",
          "or ", Dims, ", got ", ratios.size());
    for (const double ratio : ratios)
      check(ratio > 0 && ratio < 1, layer, ": output_ratio must be between 0 and 1, got ", ratio);
  }
  random_samples = this->register_buffer("_random_samples", given.random_samples);
}

template <int Dims>
Shape FractionalMaxPool<Dims>::output_size_for(const Tensor& input) const {
  Shape size;
  for (int d = 0; d < Dims; ++d) {
    const int64_t in = input.size(d - Dims);
    if (options.output_size) {
      size.push_back((*options.output_size)[d]);
    } else {
      const auto& ratios = options.output_ratio->factors();
      const double ratio = ratios[ratios.size() == 1 ? 0 : static_cast<size_t>(d)];
      size.push_back(static_cast<int64_t>(static_cast<double>(in) * ratio));
    }
    check(size.back() > 0 && size.back() + kernel_size[d] - 1 <= in, name(), ": ", size.back(),
          " windows of ", kernel_size[d], " do not fit into dim ", d - Dims, " of shape ",
          input.sizes());
  }
  return size;
}

template <int Dims>
std::tuple<Tensor, Tensor> FractionalMaxPool<Dims>::forward_with_indices(
    const Tensor& input) const {
  check(input.dim() == Dims + 1 || input.dim() == Dims + 2, name(), ": expected ", Dims + 1,
        "D or ", Dims + 2, "D input, got shape ", input.sizes());
  const Tensor x = input.dim() == Dims + 2 ? input : input.unsqueeze(0);
  const Shape out = output_size_for(input);
  Tensor samples = random_samples;
  if (!samples.defined())
    samples = rand({x.size(0), x.size(1), Dims}, {.dtype = x.dtype(), .device = x.device()});
  // The elements of all windows, as positions in the flattened spatial dims: N C out… kernel….
  Tensor positions;
  for (int d = 0; d < Dims; ++d) {
    // PyTorch's order of the numbers: the last dim's first in 2-D, the first one's in 3-D.
    const Tensor sample = samples.select(-1, Dims == 2 ? 1 - d : d);
    const Tensor along = window_starts(sample, x.size(d + 2), kernel_size[d], out[d])
                             .unsqueeze(-1)
                             .add(arange(kernel_size[d], {.dtype = kInt64, .device = x.device()}));
    Shape sizes = Shape::filled(2 + 2 * Dims, 1);
    sizes[0] = x.size(0), sizes[1] = x.size(1);
    sizes[2 + d] = out[d], sizes[2 + Dims + d] = kernel_size[d];
    const Tensor placed = along.reshape(sizes);
    positions = positions.defined() ? positions.mul(x.size(d + 2)).add(placed) : placed;
  }
  positions = positions.flatten(2, 1 + Dims).flatten(3);  // N C windows elements
  const Tensor elements = x.flatten(2).gather(-1, positions.flatten(2)).reshape(positions.sizes());
  const auto [values, chosen] = elements.max(-1);
  const Tensor indices = positions.gather(-1, chosen.unsqueeze(-1));
  Shape result = input.sizes();
  for (int d = 0; d < Dims; ++d) result[result.size() - Dims + d] = out[d];
  return {values.reshape(result), indices.reshape(result)};
}

template <int Dims>
Tensor FractionalMaxPool<Dims>::forward(const Tensor& input) const {
  return std::get<0>(forward_with_indices(input));
}

template <int Dims>
std::string FractionalMaxPool<Dims>::name() const {
  return concat("FractionalMaxPool", Dims, "d");
}

template class FractionalMaxPool<2>;
template class FractionalMaxPool<3>;

}  // namespace tensora::nn
