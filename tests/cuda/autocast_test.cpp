// Autocast on the GPU: PyTorch's dtypes, and casts that are kept.
#include "tests/amp/autocast_table.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class AutocastOnGpu : public Gpu {};

TEST_F(AutocastOnGpu, ResultsHaveTheDtypesOfPyTorch) {
  const autocast half(kBFloat16);
  for (const testing::AutocastRow& row : testing::autocast_table()) {
    DType found = kBool;
    EXPECT_EQ(message_of([&] { found = row.run(kCuda).dtype(); }), "nothing was thrown")
        << row.name;
    EXPECT_EQ(found, row.gpu) << row.name;
  }
}

TEST_F(AutocastOnGpu, GradientsFlowThroughEveryRow) {
  for (const DType dtype : {kBFloat16, kFloat16})
    for (const testing::AutocastRow& row : testing::autocast_table()) {
      const Tensor w = ones({}, {.device = kCuda, .requires_grad = true});
      const autocast half(dtype);
      EXPECT_EQ(message_of([&] { (row.run(kCuda) * w).sum().backward(); }), "nothing was thrown")
          << row.name;
    }
}

TEST_F(AutocastOnGpu, BinaryCrossEntropyIsRefused) {
  const Tensor p = full({3}, 0.5, {.device = kCuda}), y = ones({3}, {.device = kCuda});
  const autocast half(kFloat16);
  EXPECT_NE(message_of([&] { binary_cross_entropy(p, y); }).find("_with_logits"),
            std::string::npos);
  const autocast off({.device = "cuda", .enabled = false});
  binary_cross_entropy(p, y);
}

}  // namespace
}  // namespace tensora::test
