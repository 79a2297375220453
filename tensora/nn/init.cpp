#include "tensora/nn/init.h"

#include <array>
#include <cmath>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/error_kinds.h"
#include "tensora/ops/creation/empty.h"
#include "tensora/ops/creation/sequence.h"
#include "tensora/ops/linalg/qr.h"
#include "tensora/ops/random/random.h"
#include "tensora/ops/random/sample.h"

namespace tensora::nn::init {

double calculate_gain(std::string_view nonlinearity, std::optional<double> param) {
  for (const std::string_view linear : {"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
                                        "conv_transpose2d", "conv_transpose3d", "sigmoid"})
    if (nonlinearity == linear) return 1;
  if (nonlinearity == "tanh") return 5. / 3;
  if (nonlinearity == "relu") return std::sqrt(2.);
  if (nonlinearity == "selu") return 3. / 4;
  check_as<ValueError>(
      nonlinearity == "leaky_relu", "calculate_gain: unsupported nonlinearity '", nonlinearity,
      "'; expected linear, sigmoid, tanh, relu, leaky_relu, selu or a convolution");
  const double slope = param.value_or(0.01);
  return std::sqrt(2 / (1 + slope * slope));
}

std::pair<int64_t, int64_t> calculate_fan_in_and_fan_out(const Tensor& tensor) {
  check_as<ValueError>(tensor.dim() >= 2,
                       "init: fan in and fan out need a tensor of at least 2 dims, got shape ",
                       tensor.sizes());
  int64_t field = 1;
  for (int d = 2; d < tensor.dim(); ++d) field *= tensor.size(d);
  return {tensor.size(1) * field, tensor.size(0) * field};
}

const Tensor& uniform_(const Tensor& tensor, double a, double b) {
  const no_grad scope;
  tensor.uniform_(a, b);
  return tensor;
}

const Tensor& normal_(const Tensor& tensor, double mean, double std) {
  const no_grad scope;
  tensor.normal_(mean, std);
  return tensor;
}

// By the inverse of the distribution function: no draw is rejected, so the host need not wait.
const Tensor& trunc_normal_(const Tensor& tensor, double mean, double std, double a, double b) {
  check_as<ValueError>(std > 0 && a < b,
                       "trunc_normal_: expected std above 0 and a below b, got std=", std,
                       ", a=", a, ", b=", b);
  const no_grad scope;
  const auto from_erf = [&](double x) { return std::erf((x - mean) / (std * std::sqrt(2.))); };
  const DType computed = tensor.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const Tensor drawn = empty(tensor.sizes(), {.dtype = computed, .device = tensor.device()});
  drawn.uniform_(from_erf(a), from_erf(b)).erfinv_().mul_(std * std::sqrt(2.)).add_(mean);
  tensor.copy_(drawn.clamp_(a, b));
  return tensor;
}

const Tensor& constant_(const Tensor& tensor, double value) {
  const no_grad scope;
  tensor.fill_(value);
  return tensor;
}
const Tensor& ones_(const Tensor& tensor) { return constant_(tensor, 1); }
const Tensor& zeros_(const Tensor& tensor) { return constant_(tensor, 0); }

const Tensor& eye_(const Tensor& tensor) {
  check_as<ValueError>(tensor.dim() == 2, "eye_: expected a matrix, got shape ", tensor.sizes());
  const no_grad scope;
  tensor.copy_(
      eye(tensor.size(0), tensor.size(1), {.dtype = tensor.dtype(), .device = tensor.device()}));
  return tensor;
}

const Tensor& dirac_(const Tensor& tensor, int64_t groups) {
  check_as<ValueError>(tensor.dim() >= 3 && tensor.dim() <= 5,
                       "dirac_: expected a tensor of 3, 4 or 5 dims, got ", "shape ",
                       tensor.sizes());
  check_as<ValueError>(groups > 0 && tensor.size(0) % groups == 0,
                       "dirac_: the size of dim 0 must be divisible ", "by groups, got ",
                       tensor.size(0), " and ", groups);
  const no_grad scope;
  tensor.zero_();
  Tensor centre = tensor;  // out in
  while (centre.dim() > 2) centre = centre.select(-1, centre.size(-1) / 2);
  const int64_t rows = tensor.size(0) / groups;
  if (centre.numel() > 0)
    for (int64_t g = 0; g < groups; ++g) centre.narrow(0, g * rows, rows).diagonal().fill_(1);
  return tensor;
}

namespace {

double xavier_std(const Tensor& tensor, double gain) {
  const auto [fan_in, fan_out] = calculate_fan_in_and_fan_out(tensor);
  return gain * std::sqrt(2 / static_cast<double>(fan_in + fan_out));
}

double kaiming_std(const Tensor& tensor, const KaimingOptions& options) {
  check_as<ValueError>(options.mode == "fan_in" || options.mode == "fan_out",
                       "init: mode must be fan_in or ", "fan_out, got '", options.mode, "'");
  const auto [fan_in, fan_out] = calculate_fan_in_and_fan_out(tensor);
  const int64_t fan = options.mode == "fan_in" ? fan_in : fan_out;
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(static_cast<double>(fan));
}

// The uniform distribution of this deviation.
const Tensor& uniform_with(const Tensor& tensor, double std) {
  return init::uniform_(tensor, -std::sqrt(3.) * std, std::sqrt(3.) * std);
}

}  // namespace

const Tensor& xavier_uniform_(const Tensor& tensor, double gain) {
  const double std = xavier_std(tensor, gain);
  return tensor.numel() > 0 ? uniform_with(tensor, std) : tensor;
}
const Tensor& xavier_normal_(const Tensor& tensor, double gain) {
  const double std = xavier_std(tensor, gain);
  return tensor.numel() > 0 ? init::normal_(tensor, 0, std) : tensor;
}
const Tensor& kaiming_uniform_(const Tensor& tensor, KaimingOptions options) {
  const double std = kaiming_std(tensor, options);
  return tensor.numel() > 0 ? uniform_with(tensor, std) : tensor;
}
const Tensor& kaiming_normal_(const Tensor& tensor, KaimingOptions options) {
  const double std = kaiming_std(tensor, options);
  return tensor.numel() > 0 ? init::normal_(tensor, 0, std) : tensor;
}

const Tensor& orthogonal_(const Tensor& tensor, double gain) {
  check_as<ValueError>(tensor.dim() >= 2,
                       "orthogonal_: expected a tensor of at least 2 dims, got shape ",
                       tensor.sizes());
  if (tensor.numel() == 0) return tensor;
  const no_grad scope;
  const int64_t rows = tensor.size(0), cols = tensor.numel() / rows;
  const DType computed = tensor.dtype() == kFloat64 ? kFloat64 : kFloat32;
  const bool wide = rows < cols;
  const Tensor drawn = empty({rows, cols}, {.dtype = computed, .device = tensor.device()});
  drawn.normal_();
  const auto [q, r] = linalg::qr(wide ? drawn.t() : drawn);
  // With R's diagonal positive, Q is uniform among all orthogonal matrices.
  const Tensor result = q.mul(r.diagonal().sign()).mul(gain);
  tensor.copy_((wide ? result.t() : result).reshape(tensor.sizes()));
  return tensor;
}

const Tensor& sparse_(const Tensor& tensor, double sparsity, double std) {
  check_as<ValueError>(tensor.dim() == 2, "sparse_: expected a matrix, got shape ", tensor.sizes());
  check_as<ValueError>(sparsity >= 0 && sparsity <= 1,
                       "sparse_: expected sparsity from 0 to 1, got ", sparsity);
  init::normal_(tensor, 0, std);
  const no_grad scope;
  const auto zeros =
      static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(tensor.size(0))));
  for (int64_t column = 0; column < tensor.size(1); ++column) {
    const Tensor order = randperm(tensor.size(0), {.dtype = kInt64, .device = tensor.device()});
    tensor.select(1, column).index_fill_(0, order.narrow(0, 0, zeros), 0);
  }
  return tensor;
}

}  // namespace tensora::nn::init
