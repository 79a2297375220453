// batch_norm of large batches, whose channels a cluster of blocks holds, against float64.
#include <vector>

#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

using BatchNormOnGpu = Gpu;

struct BatchNormSample {
  const char* name;
  Shape sizes;
  double offset = 0;
};

Tensor normalised(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return batch_norm(x, {}, {}, weight, bias, true);
}

TEST_F(BatchNormOnGpu, LargeBatchesAgreeWithFloat64) {
  const BatchNormSample samples[] = {{"whole groups of samples", {64, 64, 28, 28}},
                                     {"some blocks have a sample less", {50, 70, 28, 28}},
                                     {"fewer samples than blocks", {5, 64, 64, 68}},
                                     {"large planes", {8, 66, 128, 160}},
                                     {"far from zero", {64, 64, 28, 28}, 3000}};
  for (const BatchNormSample& sample : samples)
    for (const DType dtype : {kFloat32, kBFloat16, kFloat16}) {
      if (sample.offset != 0 && dtype != kFloat32) continue;
      SCOPED_TRACE(concat(sample.name, " ", dtype));
      manual_seed(5);
      const int64_t channels = sample.sizes[1];
      const Tensor x = (randn(sample.sizes) + sample.offset).to(dtype);
      const Tensor weight = randn({channels}), bias = randn({channels});
      const Tensor y = normalised(x.cuda(), weight.cuda(), bias.cuda()).cpu().to(kFloat64);
      const Tensor exact = normalised(x.to(kFloat64), weight.to(kFloat64), bias.to(kFloat64));
      const double tolerance = dtype == kFloat32   ? (sample.offset ? 5e-3 : 2e-5)
                               : dtype == kFloat16 ? 1e-2
                                                   : 6e-2;
      EXPECT_LT((y - exact).abs().amax().item<double>(), tolerance);
    }
}

TEST_F(BatchNormOnGpu, ChannelsOfALargerArray) {
  manual_seed(6);
  const Tensor whole = randn({24, 96, 32, 32});
  const Tensor x = whole.slice(1, 16, 88), weight = randn({72}), bias = randn({72});
  const Tensor y = normalised(whole.cuda().slice(1, 16, 88), weight.cuda(), bias.cuda());
  EXPECT_TRUE(allclose(y.cpu(), normalised(x, weight, bias), 1e-4, 1e-4));
}

TEST_F(BatchNormOnGpu, SameBitsEveryTime) {
  manual_seed(7);
  const Tensor x = randn({64, 128, 28, 28}).cuda(), weight = randn({128}).cuda(),
               bias = randn({128}).cuda();
  const Tensor first = normalised(x, weight, bias);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(equal(normalised(x, weight, bias), first));
}

TEST_F(BatchNormOnGpu, RunningStatistics) {
  manual_seed(8);
  const Tensor x = randn({64, 64, 28, 28}) * 3 + 1;
  Tensor mean = zeros({64}), variance = ones({64});
  Tensor gpu_mean = mean.cuda(), gpu_variance = variance.cuda();
  batch_norm(x, mean, variance, {}, {}, true, 0.25);
  batch_norm(x.cuda(), gpu_mean, gpu_variance, {}, {}, true, 0.25);
  EXPECT_TRUE(allclose(gpu_mean.cpu(), mean, 1e-5, 1e-5));
  EXPECT_TRUE(allclose(gpu_variance.cpu(), variance, 1e-5, 1e-5));
}

}  // namespace
}  // namespace tensora::test
