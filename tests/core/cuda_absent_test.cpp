// Asking for CUDA where there is none: a clear sentence, and the process goes on.
#include <gtest/gtest.h>

#include "tensora/backend/cuda/cuda.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

TEST(CudaAbsent, TheReasonIsTold) {
  if (cuda::is_available()) GTEST_SKIP() << "there is a CUDA device";
  const std::string reason = cuda::unavailable_reason();
  EXPECT_EQ(reason.rfind("cuda: ", 0), 0u) << reason;
  // A build without CUDA is nothing that went wrong, and is not told like that.
  if (!has_backend_library("cuda")) {
    EXPECT_EQ(reason.rfind("cuda: this Tensora was built without the cuda backend", 0), 0u)
        << reason;
  }
  for (int i = 0; i < 2; ++i) {
    try {
      zeros({2, 3}, {.device = "cuda"});
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), reason);
    }
  }
  EXPECT_THROW(ones({2}).cuda(), Error);
  EXPECT_THROW(synchronize(DeviceType::cuda), Error);
  EXPECT_TRUE(best_device().is_cpu());
  EXPECT_EQ((ones({2}) + 1).sum().item<float>(), 4);
}

}  // namespace
}  // namespace tensora::test
