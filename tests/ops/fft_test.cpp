// Fourier transforms of lines that are too long for the op suite's references.
#include <cmath>
#include <cstring>
#include <numbers>

#include "tensora/base/thread_pool.h"
#include "tensora/ops/fft/fft.h"
#include "tests/helpers.h"

namespace tensora::testing {
namespace {

double largest(const Tensor& x) { return abs(x).max().item<double>(); }

// The longest that run in lanes and along vectors, lengths just beyond, of many factors, of few,
// and primes; 1009 and 4099 are convolved along vectors.
constexpr int64_t kLengths[] = {1009,  4096,  4097,  4099,  4100,  4160,  20000,
                                30030, 32761, 32768, 32832, 40000, 65536, 99991};

// The transform of a single 1 at place 3 is known: e^(-2 pi i 3 k / n).
TEST(Fft, LongLines) {
  for (const DType dtype : {kComplex64, kComplex128})
    for (const int64_t n : kLengths) {
      Tensor impulse = zeros({2, n}, {.dtype = dtype});
      impulse.select(1, 3).fill_(1);
      const Tensor turns = remainder(arange(n, {.dtype = kFloat64}) * 3.0, static_cast<double>(n)) *
                           (-2 * std::numbers::pi / static_cast<double>(n));
      const double bound = dtype == kComplex64 ? 2e-5 : 1e-13;
      EXPECT_LT(largest(fft::fft(impulse) - polar(ones_like(turns), turns).to(dtype)), bound)
          << n << " " << name(dtype);
    }
}

TEST(Fft, ThereAndBack) {
  for (const int64_t n : kLengths) {
    const Tensor x = randn({n}, {.dtype = kFloat64});
    EXPECT_LT(largest(fft::irfft(fft::rfft(x), n) - x), 1e-12) << n;
    const Tensor z = complex(x, x.flip({0}));
    EXPECT_LT(largest(fft::ifft(fft::fft(z)) - z), 1e-12) << n;
    // A line is transformed alone, or together with others.
    const Tensor many = fft::fft(stack({z, z, z, z, z, z, z, z, z}));
    EXPECT_LT(largest(many - fft::fft(z)), 1e-8) << n;
  }
}

TEST(Fft, SameBitsOnAnyNumberOfThreads) {
  const int before = get_num_threads();
  for (const int64_t n : kLengths) {
    const Tensor x = randn({3, n});
    set_num_threads(1);
    const Tensor one = fft::rfft(x);
    set_num_threads(4);
    const Tensor four = fft::rfft(x);
    EXPECT_EQ(std::memcmp(one.data_ptr(), four.data_ptr(), one.nbytes()), 0) << n;
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tensora::testing
