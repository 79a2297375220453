#include "tensora/nn/fractional_max_pool.h"

#include "tensora/nn/conv_common.h"
#include "tensora/ops/pool/fractional_max_pool.h"
#include "tensora/ops/random/random.h"

namespace tensora::nn {

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
  const auto pool = Dims == 2 ? fractional_max_pool2d : fractional_max_pool3d;
  const auto [values, indices] = pool(x, kernel_size, out, samples);
  if (input.dim() == Dims + 2) return {values, indices};
  return {values.squeeze(0), indices.squeeze(0)};
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
