#include "tensora/nn/conv_common.h"

#include <cmath>

#include "tensora/nn/init.h"

namespace tensora::nn {

Shape per_dim(const std::string& layer, std::string_view argument, const Shape& values, int dims,
              int64_t least) {
  check(values.size() == 1 || values.size() == dims, layer, ": ", argument, " must be one number ",
        "or ", dims, ", got ", values);
  for (const int64_t value : values)
    check(value >= least, layer, ": ", argument, " must be at least ", least, ", got ", values);
  return values.size() == 1 ? Shape::filled(dims, values[0]) : values;
}

void check_channels(const std::string& layer, int64_t in, int64_t out, int64_t groups) {
  check(groups > 0, layer, ": groups must be a positive number, got ", groups);
  check(in >= 0 && in % groups == 0, layer, ": in_channels must be divisible by groups, got ", in,
        " and ", groups);
  check(out >= 0 && out % groups == 0, layer, ": out_channels must be divisible by groups, got ",
        out, " and ", groups);
}

void reset_conv_parameters(const Tensor& weight, const Tensor& bias) {
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.)});
  if (!bias.defined()) return;
  const auto fan_in = static_cast<double>(init::calculate_fan_in_and_fan_out(weight).first);
  const double bound = fan_in > 0 ? 1 / std::sqrt(fan_in) : 0;
  init::uniform_(bias, -bound, bound);
}

std::string repr_conv_rest(const Shape& dilation, const Shape& output_padding, int64_t groups,
                           bool bias) {
  std::string text;
  if (dilation != Shape::filled(dilation.size(), 1)) text += ", dilation=" + repr_tuple(dilation);
  if (output_padding != Shape::filled(output_padding.size(), 0))
    text += ", output_padding=" + repr_tuple(output_padding);
  if (groups != 1) text += concat(", groups=", groups);
  if (!bias) text += ", bias=False";
  return text;
}

}  // namespace tensora::nn
