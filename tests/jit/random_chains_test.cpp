// Random chains of pointwise ops, casts, row maxima and random numbers on floats of 16 and 32 bits:
// compiled results have the bits of eager ones, for all strides and sizes, with NaNs, infinities
// and subnormals.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "tensora/jit/lazy.h"
#include "tensora/tensora.h"

namespace tensora::test {
namespace {

constexpr DType kDTypes[] = {kFloat32, kBFloat16, kFloat16};

/// A program is a seed. All its ops are exact: their vector and scalar forms round alike.
class Chain {
 public:
  explicit Chain(uint64_t seed) : random_(seed) { manual_seed(seed); }

  std::vector<Tensor> run() {
    const int64_t widths[] = {1, 3, 31, 64, 65, 127, 128, 129, 200, 513, 2048, 2200, 4100};
    rows_ = 1 + pick(int64_t{9});
    width_ = widths[pick(size_t{13})];
    for (int i = 0; i < 4; ++i) pool_.push_back(input());
    const size_t steps = 3 + pick(size_t{18});
    for (size_t i = 0; i < steps; ++i) pool_.push_back(computed());
    std::vector<Tensor> kept;  // the last, and a few others
    for (size_t i = 4; i < pool_.size(); ++i)
      if (i + 1 == pool_.size() || pick(size_t{4}) == 0) kept.push_back(pool_[i]);
    return kept;
  }

 private:
  size_t pick(size_t count) { return random_() % count; }
  int64_t pick(int64_t count) { return static_cast<int64_t>(random_() % uint64_t(count)); }
  const Tensor& any() { return pool_[pick(pool_.size())]; }

  // Mostly moderate numbers, sometimes any bits at all.
  Tensor numbers(const Shape& sizes, DType dtype) {
    Tensor bits = empty(sizes, {.dtype = kInt32});
    int32_t* const data = bits.data_ptr<int32_t>();
    const bool wild = pick(size_t{3}) == 0;
    for (int64_t i = 0; i < bits.numel(); ++i) {
      const float moderate = (static_cast<float>(random_() % 4001) - 2000) / 256;
      const auto any_bits = static_cast<int32_t>(random_());
      data[i] = wild && pick(size_t{4}) == 0 ? any_bits : __builtin_bit_cast(int32_t, moderate);
    }
    return bits.view(kFloat32).to(dtype);
  }

  Tensor input() {
    const DType dtype = kDTypes[pick(size_t{3})];
    switch (pick(size_t{7})) {
      case 0:
        return numbers({width_}, dtype);
      case 1:
        return numbers({rows_, 1}, dtype);
      case 2:
        return numbers({}, dtype);
      case 3:
        return numbers({width_, rows_}, dtype).transpose(0, 1);
      case 4:
        return numbers({rows_, 2 * width_ + 1}, dtype).slice(1, 1, {}, 2);
      default:
        return numbers({rows_, width_}, dtype);
    }
  }

  Tensor computed() {
    const Tensor x = any(), y = any();
    switch (pick(size_t{17})) {
      case 0:
        return x + y;
      case 1:
        return x - y;
      case 2:
        return x * y;
      case 3:
        return x / y;
      case 4:
        return maximum(x, y);
      case 5:
        return x.relu();
      case 6:
        return x.abs() + 0.25;
      case 7:
        return -x * 0.75;
      case 8:
        return where(x > y, x, y * 2);
      case 9:
        return x.abs().sqrt();
      case 10:
        return clamp(x, -3, 5);
      case 11:
        return x.to(kDTypes[pick(size_t{3})]);
      case 12:
        return x.dim() == 2 ? x.amax({1}, true) : x;
      case 13:
        return dropout(x, 0.375);
      case 14:
        return alpha_dropout(x, 0.5, true);
      case 15:
        return x.clone().normal_(0.5, 2);
      default:
        return numbers(x.sizes(), x.dtype()).mul_(x);
    }
  }

  std::mt19937_64 random_;
  int64_t rows_ = 1, width_ = 1;
  std::vector<Tensor> pool_;
};

/// Equal bits; NaNs are equal, whatever their sign and payload.
bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes() || a.strides() != b.strides()) return false;
  const Tensor x = a.contiguous(), y = b.contiguous();
  if (x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0) return true;
  const std::vector<double> p = to_vector<double>(x.to(kFloat64)),
                            q = to_vector<double>(y.to(kFloat64));
  for (size_t i = 0; i < p.size(); ++i)
    if (std::memcmp(&p[i], &q[i], sizeof(double)) != 0 && !(p[i] != p[i] && q[i] != q[i])) {
      ADD_FAILURE() << "element " << i << " is " << p[i] << " instead of " << q[i];
      return false;
    }
  return true;
}

TEST(RandomChains, LazyEqualsEager) {
  const char* const soak = std::getenv("TENSORA_SOAK");
  const uint64_t count = 200 * static_cast<uint64_t>(soak ? std::max(1, std::atoi(soak)) : 1);
  for (uint64_t seed = 0; seed < count; ++seed) {
    const std::vector<Tensor> eager = Chain(seed).run();
    for (const Fuse fuse : {Fuse::what_pays, Fuse::everything}) {
      std::vector<Tensor> lazily;
      {
        const LazyScope lazy({.fuse = fuse, .strict = true});
        lazily = Chain(seed).run();
      }
      ASSERT_EQ(lazily.size(), eager.size());
      for (size_t i = 0; i < eager.size(); ++i)
        ASSERT_TRUE(same(lazily[i], eager[i])) << "program " << seed << ", result " << i << ": "
                                               << eager[i].dtype() << " " << eager[i].sizes();
    }
  }
}

// Ties, what lies beside them, subnormals, infinities and NaNs, at every exponent and sign.
TEST(RandomChains, RoundingsHaveEagersBits) {
  const uint32_t lower[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
  Tensor bits = empty({65536, 6}, {.dtype = kInt32});
  int32_t* const data = bits.data_ptr<int32_t>();
  for (uint32_t upper = 0; upper < 65536; ++upper)
    for (uint32_t i = 0; i < 6; ++i)
      data[upper * 6 + i] = static_cast<int32_t>(upper << 16 | lower[i]);
  const Tensor x = bits.view(kFloat32);
  for (const DType dtype : {kBFloat16, kFloat16}) {
    const auto body = [&] {
      const Tensor rounded = x.to(dtype);  // stored, and used again
      return std::vector<Tensor>{rounded, rounded * 1, rounded.relu() * 0.75 - rounded,
                                 maximum(rounded, rounded.abs()) + 0.25};
    };
    const std::vector<Tensor> eager = body();
    std::vector<Tensor> lazily;
    {
      const LazyScope lazy({.fuse = Fuse::everything, .strict = true});
      lazily = body();
    }
    for (size_t i = 0; i < eager.size(); ++i)
      EXPECT_TRUE(same(lazily[i], eager[i])) << dtype << " result " << i;
  }
}

}  // namespace
}  // namespace tensora::test
