// Sources called *_sm90a.cu are compiled for Hopper's own instructions, and only Hopper runs them.
#include "tensora/backend/cuda/runtime/runtime.h"
#include "tests/cuda/gpu.h"
#include "tests/cuda/hopper_sm90a.h"

namespace tensora::test {
namespace {

class HopperOnGpu : public Gpu {};

TEST_F(HopperOnGpu, WgmmaMultiplies) {
  const Tensor a = sample({64, 16}, kBFloat16), b = sample({8, 16}, kBFloat16);
  const Tensor ca = a.cuda(), cb = b.cuda(), out = full({64, 8}, NAN, {.device = kCuda});
  const cudaError_t status =
      wgmma_tile(ca.data_ptr(), cb.data_ptr(), out.data_ptr<float>(), cuda::current_stream(0));
  if (!cuda::runs_sm90a(0)) {
    EXPECT_NE(status, cudaSuccess) << "runs_sm90a says no, but the kernel runs";
    GTEST_SKIP() << cuda::device_info(0).name << " is no Hopper GPU";
  }
  ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status);
  expect_close(out, matmul(a.to(kFloat32), b.to(kFloat32).transpose(0, 1)), 1e-5);
}

}  // namespace
}  // namespace tensora::test
