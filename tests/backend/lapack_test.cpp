// Memory that LAPACK's functions are given. Its ends are the ends of pages that may be read, so
// that a function that reads on ends the test.
#include "tensora/backend/cpu/lapack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <complex>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/backend/cpu/isa.h"
#include "tests/helpers.h"

namespace tensora::cpu {
namespace {

/// Elements whose last one is the last of a page; the page behind may not be read.
template <class T>
class AtPageEnd {
 public:
  explicit AtPageEnd(int64_t count) : count_(count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t readable = (bytes + page - 1) / page * page;
    mapped_ = readable + page;
    start_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start_ == MAP_FAILED || mprotect(start_ + readable, page, PROT_NONE) != 0)
      throw std::runtime_error("no memory with a forbidden page behind it");
    elements_ = reinterpret_cast<T*>(start_ + readable - bytes);
  }
  ~AtPageEnd() { munmap(start_, mapped_); }
  AtPageEnd(const AtPageEnd&) = delete;
  AtPageEnd& operator=(const AtPageEnd&) = delete;

  T* data() { return elements_; }
  T& operator[](int64_t i) { return elements_[i]; }
  int64_t count() const { return count_; }

 private:
  int64_t count_;
  size_t mapped_;
  char* start_;
  T* elements_;
};

template <class T>
void fill(AtPageEnd<std::complex<T>>& elements) {
  std::mt19937 random(7);
  std::uniform_real_distribution<T> real(-1, 1);
  for (int64_t i = 0; i < elements.count(); ++i) elements[i] = {real(random), real(random)};
}

template <class T>
void check_within_memory(DType dtype) {
  using Complex = std::complex<T>;
  const OpenBlasOnThisThread scope;
  const Lapack lapack(dtype, "test");
  for (const int m : {1, 2, 3, 6, 10, 17, 40, 70})
    for (const int n : {1, 2, 3, 6, 10, 17, 40, 70}) {
      SCOPED_TRACE(::testing::Message() << m << " by " << n);
      const int k = std::min(m, n);
      AtPageEnd<Complex> A(m * n), U(m * k), Vh(k * n), tau(k);
      AtPageEnd<T> S(k);
      fill(A);
      const Complex first = A[0];
      ASSERT_EQ(lapack.decompose_svd('S', m, n, A.data(), S.data(), U.data(), Vh.data()), 0);
      Complex again = 0;
      for (int i = 0; i < k; ++i) again += U[i * m] * S[i] * Vh[i];
      EXPECT_LT(std::abs(again - first), 1e-4) << "the first element of U S Vh";

      fill(A);
      ASSERT_EQ(lapack.factorise_qr(m, n, A.data(), tau.data()), 0);
      if (m >= n) {
        ASSERT_EQ(lapack.form_q(m, n, n, A.data(), tau.data()), 0);
      }

      if (m != n) continue;
      for (const char triangle : {'L', 'U'}) {
        fill(A);
        for (int i = 0; i < n; ++i) A[i * (n + 1)] = A[i * (n + 1)].real();
        ASSERT_EQ(lapack.decompose_symmetric('V', triangle, n, A.data(), S.data()), 0);
      }
    }
}

TEST(LapackTest, FunctionsStayWithinTheirMemory) {
  if (!openblas().refusal.empty()) GTEST_SKIP() << openblas().refusal;
  check_within_memory<float>(kComplex64);
  check_within_memory<double>(kComplex128);
}

// A matrix after one of NaN: some kernels compute with what the call before left behind. The entry
// unit.old_openblas_kernels runs this with such kernels.
template <class T>
void check_symmetric_after_nan(DType dtype) {
  const OpenBlasOnThisThread scope;
  const Lapack lapack(dtype, "test");
  std::mt19937 random(11);
  std::uniform_real_distribution<T> uniform(-1, 1);
  for (int n = 1; n <= 40; ++n)
    for (const char triangle : {'L', 'U'}) {
      SCOPED_TRACE(::testing::Message() << n << " " << triangle);
      const auto size = static_cast<size_t>(n);
      std::vector<T> matrix(size * size), values(size);
      std::vector<T> poison(size * size, std::numeric_limits<T>::quiet_NaN());
      lapack.decompose_symmetric('V', triangle, n, poison.data(), values.data());
      double trace = 0, sum = 0;
      for (T& element : matrix) element = uniform(random);
      for (size_t i = 0; i < size; ++i) trace += static_cast<double>(matrix[i * (size + 1)]);
      ASSERT_EQ(lapack.decompose_symmetric('V', triangle, n, matrix.data(), values.data()), 0);
      for (const T value : values) sum += static_cast<double>(value);
      EXPECT_NEAR(sum, trace, 1e-4) << "the sum of the eigenvalues";
    }
}

TEST(LapackTest, NothingIsLeftFromTheCallBefore) {
  if (!openblas().refusal.empty()) GTEST_SKIP() << openblas().refusal;
  check_symmetric_after_nan<float>(kFloat32);
  check_symmetric_after_nan<double>(kFloat64);
}

TEST(LapackTest, KernelsAreOfThisProcessor) {
  if (!openblas().refusal.empty()) GTEST_SKIP() << openblas().refusal;
  const auto kernels =
      reinterpret_cast<const char* (*)()>(openblas_function("openblas_get_corename"));
  if (!kernels || cpu_isa() == Isa::baseline || std::getenv("OPENBLAS_CORETYPE"))
    GTEST_SKIP() << "nothing to expect of the library's choice";
  EXPECT_STRNE(kernels(), "Prescott");
}

}  // namespace
}  // namespace tensora::cpu
