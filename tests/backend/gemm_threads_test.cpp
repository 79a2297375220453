// Products by every way through gemm, on several threads at once, against one thread.
#include <dlfcn.h>
#include <array>
#include <atomic>
#include <cmath>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "tensora/backend/cpu/gemm.h"
#include "tensora/backend/cpu/gemm_installed.h"
#include "tensora/backend/cpu/gemm_library.h"
#include "tensora/base/settings.h"
#include "tests/backend/busy_pool.h"
#include "tests/helpers.h"

namespace tensora::cpu {
namespace {

using tensora::testing::BusyPool, tensora::testing::contains, tensora::testing::error_of,
    tensora::testing::NumThreads;

struct Size {
  int64_t batch, m, n, k;
};

/// Each takes another way: skinny, thin, b in place, packed, sliced, by batch, the libraries' size
/// classes, and several cells: across, down (of types whose sums are apart), with a last panel that
/// is no whole vector.
constexpr Size kSizes[] = {
    {1, 1, 700, 300},   {1, 300, 5, 700},    {1, 40, 600, 300},  {1, 90, 90, 90},
    {1, 130, 120, 110}, {1, 32, 32, 20000},  {1, 100, 60, 9000}, {1, 256, 256, 256},
    {1, 300, 200, 400}, {1, 385, 384, 390},  {40, 64, 64, 64},   {3, 200, 210, 190},
    {1, 512, 512, 512}, {1, 300, 1100, 400}, {1, 2100, 531, 40}, {1, 70, 1003, 777}};

/// A product's operands and its result on one thread.
template <class T>
struct Sample {
  Size size;
  bool b_transposed;
  std::vector<T> a, b, expected;

  Sample(const Size& shape, bool transposed, std::mt19937& random)
      : size(shape), b_transposed(transposed) {
    std::uniform_real_distribution<float> real(-1, 1);
    a.resize(static_cast<size_t>(size.batch * size.m * size.k));
    b.resize(static_cast<size_t>(size.batch * size.k * size.n));
    for (T& x : a) x = T(real(random));
    for (T& x : b) x = T(real(random));
    expected = product();
  }

  std::vector<T> product() const {
    std::vector<T> out(static_cast<size_t>(size.batch * size.m * size.n), T(1.7f));
    gemm<T>({.batch = size.batch,
             .m = size.m,
             .n = size.n,
             .k = size.k,
             .a = {a.data(), size.m * size.k, size.k, 1},
             .b = {b.data(), size.k * size.n, b_transposed ? 1 : size.n, b_transposed ? size.k : 1},
             .out = {out.data(), size.m * size.n, size.n, 1},
             .alpha = 0.75,
             .beta = -0.3});
    return out;
  }

  double error(const std::vector<T>& out) const {
    double worst = 0;
    for (size_t i = 0; i < out.size(); ++i)
      worst =
          std::max(worst, std::abs(static_cast<double>(out[i]) - static_cast<double>(expected[i])));
    return worst;
  }
  /// What another order of summation may change; a wrong product is off by 1 and more.
  double allowed() const {
    const double k = static_cast<double>(size.k);
    return sizeof(T) == 8 ? 1e-12 * k : sizeof(T) == 4 ? 2e-6 * std::sqrt(k) * 4 : 0;
  }
  std::string text() const {
    return concat(size.batch, " of ", size.m, " x ", size.n, " x ", size.k,
                  b_transposed ? ", b transposed" : "");
  }
};

template <class T>
std::vector<Sample<T>> samples() {
  const NumThreads one(1);
  std::mt19937 random(5);
  std::vector<Sample<T>> result;
  for (const Size& size : kSizes)
    for (const bool transposed : {false, true}) result.emplace_back(size, transposed, random);
  return result;
}

template <class T>
std::vector<GemmLibraries> usable_libraries() {
  std::vector<GemmLibraries> usable = {GemmLibraries::off};
  if (sizeof(T) == 2) return usable;  // our own kernels' alone
  if (openblas().sgemm) usable.push_back(GemmLibraries::openblas);
  if (sizeof(T) == 4 && onednn().sgemm) usable.push_back(GemmLibraries::onednn);
  return usable;
}

const char* text(GemmLibraries libraries) {
  constexpr const char* names[] = {"auto", "own kernels", "OpenBLAS", "oneDNN"};
  return names[static_cast<size_t>(libraries)];
}

class AllowedLibraries {
 public:
  explicit AllowedLibraries(GemmLibraries allowed) : previous_(allowed_gemm_libraries()) {
    set_gemm_libraries(allowed);
  }
  ~AllowedLibraries() { set_gemm_libraries(previous_); }

 private:
  GemmLibraries previous_;
};

/// How long a kind of product is repeated; TENSORA_STRESS_SECONDS=60 for a thorough run.
std::chrono::milliseconds patience() {
  return std::chrono::milliseconds(number_setting("TENSORA_STRESS_SECONDS", 0, 86400, 0) * 1000 +
                                   300);
}

template <class T>
class GemmThreads : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(GemmThreads, Types);

TYPED_TEST(GemmThreads, AgreeWithOneThread) {
  for (const GemmLibraries libraries : usable_libraries<TypeParam>()) {
    const AllowedLibraries scope(libraries);
    const std::vector<Sample<TypeParam>> all = samples<TypeParam>();
    for (const int threads : {2, 4, 8}) {
      const NumThreads several(threads);
      const auto end = std::chrono::steady_clock::now() + patience();
      do {
        for (const Sample<TypeParam>& sample : all)
          ASSERT_LE(sample.error(sample.product()), sample.allowed())
              << text(libraries) << ", " << threads << " threads: " << sample.text();
      } while (std::chrono::steady_clock::now() < end);
    }
  }
}

TYPED_TEST(GemmThreads, UserThreadsMultiplyAtOnce) {
  for (const GemmLibraries libraries : usable_libraries<TypeParam>()) {
    const AllowedLibraries scope(libraries);
    const std::vector<Sample<TypeParam>> all = samples<TypeParam>();
    const NumThreads two(2);
    std::atomic<int> wrong = 0;
    const auto end = std::chrono::steady_clock::now() + patience();
    std::vector<std::thread> users;
    for (size_t user = 0; user < 4; ++user)
      users.emplace_back([&, user] {
        size_t i = user * 7;
        do {
          const Sample<TypeParam>& sample = all[i++ % all.size()];
          if (sample.error(sample.product()) > sample.allowed()) ++wrong;
        } while (std::chrono::steady_clock::now() < end);
      });
    for (std::thread& user : users) user.join();
    EXPECT_EQ(wrong, 0) << text(libraries);
  }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TYPED_TEST(GemmThreads, OwnKernelsGiveTheSameBitsForAnyNumberOfThreads) {
  const AllowedLibraries own(GemmLibraries::off);
  for (const Sample<TypeParam>& sample : samples<TypeParam>())
    for (const int threads : {1, 2, 3, 8}) {
      const NumThreads several(threads);
      EXPECT_TRUE(same_bits(sample.product(), sample.expected))
          << threads << " threads: " << sample.text();
      const BusyPool busy;
      EXPECT_TRUE(same_bits(sample.product(), sample.expected))
          << threads << " threads and a busy pool: " << sample.text();
    }
}

// Products of few rows with a transposed b are computed as out^T, in place: see Note [Ways through
// gemm]. The sizes are at the edges of tiles, of steps of k and of the blocks of rows of out^T.
TYPED_TEST(GemmThreads, ATransposedOperandGivesTheBitsOfItsCopy) {
  using T = TypeParam;
  const AllowedLibraries own(GemmLibraries::off);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> real(-1, 1);
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{17, 700, 200},
                                {33, 131, 1001},
                                {48, 517, 376},
                                {64, 512, 784},
                                {65, 1030, 377},
                                {190, 900, 150},
                                {256, 515, 300}})
    for (const auto& [alpha, beta] : {std::pair{1., 0.}, {1., 1.}, {0.75, -0.3}})
      for (const int threads : {1, 3}) {
        const NumThreads several(threads);
        std::vector<T> a(static_cast<size_t>(m * k)), rows(static_cast<size_t>(k * n)),
            columns(rows);
        for (T& x : a) x = T(real(random));
        for (int64_t i = 0; i < k; ++i)
          for (int64_t j = 0; j < n; ++j)
            rows[static_cast<size_t>(i * n + j)] = columns[static_cast<size_t>(j * k + i)] =
                T(real(random));
        // Three columns behind those of out, which stay as they are.
        std::vector<T> by_rows(static_cast<size_t>(m * (n + 3)), T(1.7f)), by_columns(by_rows);
        Gemm<T> product{.m = m, .n = n, .k = k, .a = {a.data(), 0, k, 1}};
        product.alpha = alpha;
        product.beta = beta;
        product.b = {rows.data(), 0, n, 1};
        product.out = {by_rows.data(), 0, n + 3, 1};
        gemm(product);
        product.b = {columns.data(), 0, 1, k};
        product.out.data = by_columns.data();
        gemm(product);
        EXPECT_TRUE(same_bits(by_rows, by_columns)) << m << " x " << n << " x " << k << ", alpha "
                                                    << alpha << ", " << threads << " threads";
        EXPECT_EQ(static_cast<float>(by_columns[static_cast<size_t>(n)]),
                  static_cast<float>(T(1.7f)));
      }
}

TYPED_TEST(GemmThreads, LibrariesGiveTheSameBitsInDeterministicMode) {
  const DeterministicScope deterministic(true);
  for (const GemmLibraries libraries : usable_libraries<TypeParam>()) {
    const AllowedLibraries scope(libraries);
    for (const Sample<TypeParam>& sample : samples<TypeParam>())
      for (const int threads : {2, 3, 8}) {
        const NumThreads several(threads);
        EXPECT_TRUE(same_bits(sample.product(), sample.expected))
            << text(libraries) << ", " << threads << " threads: " << sample.text();
        const BusyPool busy;
        EXPECT_TRUE(same_bits(sample.product(), sample.expected))
            << text(libraries) << ", " << threads << " threads and a busy pool: " << sample.text();
      }
  }
}

TYPED_TEST(GemmThreads, ABusyPoolChangesNoBits) {
  const NumThreads three(3);
  for (const GemmLibraries libraries : usable_libraries<TypeParam>()) {
    const AllowedLibraries scope(libraries);
    for (const Sample<TypeParam>& sample : samples<TypeParam>()) {
      const std::vector<TypeParam> alone = sample.product();
      const BusyPool busy;
      EXPECT_TRUE(same_bits(sample.product(), alone)) << text(libraries) << ": " << sample.text();
    }
  }
}

// ---- guests in a program ----

TEST(GemmLibraries, TheNumberOfThreadsOfOpenBlasStaysTheProgramsOwn) {
  if (!openblas().sgemm) GTEST_SKIP() << openblas().refusal;
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(openblas().sgemm), &info), 0);
  void* const library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  const int before = get();
  const AllowedLibraries scope(GemmLibraries::openblas);
  std::mt19937 random(1);
  for (const int threads : {1, 2, 3}) {
    set(threads);
    const Sample<double> sample({1, 256, 256, 256}, false, random);
    EXPECT_EQ(get(), threads);
    {
      const OpenBlasOnThisThread outer;
      const OpenBlasOnThisThread inner;
      EXPECT_EQ(get(), 1);
    }
    EXPECT_EQ(get(), threads);
  }
  set(before);
  dlclose(library);
}

TEST(GemmLibraries, TheNumberOfThreadsOfOpenMpStaysTheCallersOwn) {
  if (!onednn().sgemm) GTEST_SKIP() << onednn().refusal;
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(onednn().sgemm), &info), 0);
  void* const library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
  const auto get = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
  const int before = get();
  const AllowedLibraries scope(GemmLibraries::onednn);
  std::mt19937 random(1);
  set(3);
  const Sample<float> sample({1, 256, 256, 256}, false, random);
  EXPECT_EQ(get(), 3);
  set(before);
  dlclose(library);
}

TEST(GemmLibraries, AreNamedOrTheReasonIsTold) {
  const std::string used = gemm_libraries(), refused = refused_gemm_libraries();
  for (const char* name : {"OpenBLAS", "oneDNN"})
    EXPECT_NE(contains(used, name), contains(refused, name)) << used << " / " << refused;
  const AllowedLibraries off(GemmLibraries::off);
  EXPECT_EQ(gemm_libraries(), "none");
  EXPECT_EQ(refused_gemm_libraries(), "");
}

}  // namespace
}  // namespace tensora::cpu
