#include <cmath>

#include "tensora/dispatch/op.h"
#include "tensora/ops/norm/batch_norm_relu_op.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr double kEps = 1e-3;

Array rectified_norm(Arrays x) {
  const Shape& sizes = x[0].sizes;
  const int64_t samples = sizes[0], channels = sizes[1];
  const int64_t inner = x[0].numel() / (samples * channels);
  const double count = static_cast<double>(samples * inner);
  Array out(sizes);
  for (int64_t c = 0; c < channels; ++c) {
    const auto each = [&](auto body) {
      for (int64_t n = 0; n < samples; ++n)
        for (int64_t i = 0; i < inner; ++i) body((n * channels + c) * inner + i);
    };
    double mean = 0, variance = 0;
    each([&](int64_t at) { mean += x[0][at] / count; });
    each([&](int64_t at) { variance += (x[0][at] - mean) * (x[0][at] - mean) / count; });
    each([&](int64_t at) {
      const double value = (x[0][at] - mean) / std::sqrt(variance + kEps) * x[1][c] + x[2][c] +
                           (x.size() > 3 ? x[3][at] : 0);
      out[at] = value < 0 ? 0 : value;
    });
  }
  return out;
}

}  // namespace

void batch_norm_relu_cases(Cases& cases) {
  for (const bool added : {false, true})
    for (const bool last : {false, true})
      for (const Shape& sizes :
           {Shape{4, 3, 2, 5}, Shape{6, 5}, Shape{3, 8, 4, 2}, Shape{2, 16, 40, 40}}) {
        std::vector<Input> inputs = {{sizes}, {{sizes[1]}, 0.5, 2}, {{sizes[1]}, -1, 1}};
        if (added) inputs.push_back({sizes});
        if (last && sizes.size() != 4) continue;
        std::map<Mode, std::string> opt_out;
        if (sizes.numel() > 1000)
          opt_out[Mode::grad] = "some of so many sums round to the other side of 0";
        cases.add({.op = "batch_norm_relu",
                   .name = concat(sizes, last ? " channels last" : "", added ? " added" : ""),
                   .inputs = inputs,
                   .run =
                       [=](In x) {
                         const auto laid_out = [&](const Tensor& each) {
                           return last ? each.contiguous(MemoryFormat::channels_last) : each;
                         };
                         return one(apply_all(
                             batch_norm_relu_op,
                             {laid_out(x[0]), x[1], x[2], added ? laid_out(x[3]) : Tensor()},
                             {kEps})[0]);
                       },
                   .reference = [](Arrays x) { return one(rectified_norm(x)); },
                   .tolerance = 16,
                   .opt_out = opt_out});
      }
  cases.error("batch_norm_relu", "weight", "weight must have shape [3]", [] {
    apply_all(batch_norm_relu_op, {rand({2, 3}), rand({2}), rand({3})}, {});
  });
  cases.error("batch_norm_relu", "residual", "residual must be as the input", [] {
    apply_all(batch_norm_relu_op, {rand({2, 3}), rand({3}), rand({3}), rand({2, 4})}, {});
  });
}

}  // namespace tensora::suite
