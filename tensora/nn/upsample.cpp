#include "tensora/nn/upsample.h"

#include "tensora/nn/repr.h"
#include "tensora/ops/resample/interpolate.h"

namespace tensora::nn {

Upsample::Upsample(UpsampleOptions given) : options(std::move(given)) {
  check(options.size.has_value() != options.scale_factor.has_value(),
        "Upsample: expected one of size and scale_factor");
}

Tensor Upsample::forward(const Tensor& input) const {
  std::optional<std::vector<double>> factors;
  if (options.scale_factor) factors = options.scale_factor->factors();
  return interpolate(input, options.size, factors, options.mode, options.align_corners,
                     options.recompute_scale_factor);
}

std::string Upsample::extra_repr() const {
  std::string text;
  if (options.scale_factor) {
    const auto& factors = options.scale_factor->factors();
    for (const double factor : factors) text += (text.empty() ? "" : ", ") + repr(factor);
    text = "scale_factor=" + (factors.size() == 1 ? text : "(" + text + ")");
  } else {
    text = "size=" + repr(*options.size);
  }
  return concat(text, ", mode='", options.mode, "'");
}

}  // namespace tensora::nn
