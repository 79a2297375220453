// Attention of bfloat16, whose products may run on other kernels than those of float: results and
// gradients beside those of the same numbers in float, at sizes that fill tiles and at such that do
// not, and the same bits for any number of threads.
#include <cstring>

#include "tests/backend/busy_pool.h"
#include "tests/helpers.h"

namespace tensora {
namespace {

using testing::NumThreads;

struct Sizes {
  int64_t heads, groups, queries, keys, size, width;
  bool causal = false;
  double dropout = 0;
};

std::ostream& operator<<(std::ostream& out, const Sizes& s) {
  return out << s.heads << " heads, " << s.groups << " groups, " << s.queries << " queries, "
             << s.keys << " keys, sizes " << s.size << " and " << s.width
             << (s.causal ? ", causal" : "") << ", dropout " << s.dropout;
}

const std::vector<Sizes>& samples() {
  static const std::vector<Sizes> all = {{2, 2, 64, 96, 64, 32},
                                         {2, 1, 96, 192, 32, 128},
                                         {1, 1, 17, 1, 1, 1},
                                         {1, 1, 33, 31, 33, 17},
                                         {3, 1, 101, 213, 40, 48},
                                         {1, 1, 40, 70, 600, 530},
                                         {2, 2, 288, 288, 64, 64, true},
                                         {2, 1, 217, 205, 24, 96, true},
                                         {1, 1, 130, 400, 80, 80, true},
                                         {1, 1, 90, 230, 16, 16, false, 0.4},
                                         {1, 1, 200, 200, 32, 32, true, 0.3}};
  return all;
}

/// The operands and the result's gradient, all numbers that bfloat16 holds.
std::vector<Tensor> operands(const Sizes& s) {
  const auto made = [](const Shape& shape) { return randn(shape).to(kBFloat16).to(kFloat32); };
  return {made({2, s.heads, s.queries, s.size}), made({2, s.groups, s.keys, s.size}),
          made({2, s.groups, s.keys, s.width}), made({2, s.heads, s.queries, s.width})};
}

/// The result and the gradients of the three operands, and that of the mask if there is one.
std::vector<Tensor> attend(const std::vector<Tensor>& from, const Sizes& s, DType dtype,
                           const Tensor& mask = {}) {
  manual_seed(11);
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < 3; ++i) leaves.push_back(from[i].to(dtype).detach().requires_grad_());
  if (mask.defined()) leaves.push_back(mask.detach().requires_grad_());
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2],
                                                mask.defined() ? leaves[3] : mask, s.dropout,
                                                s.causal, {}, s.heads != s.groups);
  std::vector<Tensor> all = {y.detach()};
  for (const Tensor& grad : grad({y}, leaves, {from[3].to(dtype)})) all.push_back(grad);
  return all;
}

/// The largest difference, as a part of the largest number.
double distance(const Tensor& narrow, const Tensor& wide) {
  const Tensor most = wide.abs().max();
  return ((narrow.to(kFloat32) - wide).abs().max() / (most + 1e-30)).item<double>();
}

TEST(AttentionBfloat16, ResultsAndGradientsAreThoseOfFloat) {
  manual_seed(5);
  for (const Sizes& s : samples()) {
    const std::vector<Tensor> from = operands(s);
    const auto narrow = attend(from, s, kBFloat16), wide = attend(from, s, kFloat32);
    for (size_t i = 0; i < wide.size(); ++i) {
      // The scores of a single key do not matter: in float their gradients are exactly 0.
      if (s.keys == 1 && (i == 1 || i == 2)) continue;
      EXPECT_LT(distance(narrow[i], wide[i]), 0.02) << s << ", number " << i;
    }
  }
}

TEST(AttentionBfloat16, OperandsOfAnyStride) {
  manual_seed(6);
  for (const bool across : {false, true}) {
    const Sizes s{2, 2, 128, 96, 64, 64};
    std::vector<Tensor> from = operands(s);
    const auto dense = attend(from, s, kBFloat16);
    // Heads between the rows of a head, rows a whole page apart; or columns apart.
    for (Tensor& x : from) {
      const Tensor wide = zeros({2, x.size(2), 16, 128}).to(kBFloat16);
      const Tensor part =
          across ? wide.slice(2, 0, 2).slice(3, 0, 128, 2) : wide.slice(2, 0, 2).slice(3, 0, 64);
      part.transpose(1, 2).copy_(x);
      x = part.transpose(1, 2);
    }
    const auto strided = attend(from, s, kBFloat16);
    for (size_t i = 0; i < dense.size(); ++i)
      EXPECT_TRUE(equal(strided[i], dense[i])) << "columns apart " << across << ", number " << i;
  }
}

TEST(AttentionBfloat16, MasksAndTheirGradients) {
  manual_seed(7);
  const Sizes s{2, 2, 70, 230, 32, 32};
  const std::vector<Tensor> from = operands(s);
  const Tensor mask = randn({2, 1, 70, 230});
  const auto narrow = attend(from, s, kBFloat16, mask), wide = attend(from, s, kFloat32, mask);
  for (size_t i = 0; i < wide.size(); ++i)
    EXPECT_LT(distance(narrow[i], wide[i]), 0.02) << "number " << i;
}

TEST(AttentionBfloat16, RowsThatSeeNothingAndNumbersThatAreNone) {
  manual_seed(8);
  const Sizes s{1, 1, 64, 96, 32, 32};
  std::vector<Tensor> from = operands(s);
  const Tensor mask = zeros({64, 96});
  mask[5].fill_(-std::numeric_limits<double>::infinity());
  const auto hidden = attend(from, s, kBFloat16, mask);
  EXPECT_TRUE(equal(hidden[0].select(2, 5), zeros({2, 1, 32}).to(kBFloat16)));
  EXPECT_TRUE(equal(hidden[1].select(2, 5), zeros({2, 1, 32}).to(kBFloat16)));
  from[0].select(2, 7).fill_(std::numeric_limits<double>::quiet_NaN());
  const Tensor result = attend(from, s, kBFloat16)[0];
  EXPECT_TRUE(isnan(result.select(2, 7)).all().item<bool>());
  EXPECT_FALSE(isnan(result.select(2, 6)).any().item<bool>());
}

TEST(AttentionBfloat16, PackedSequencesAreThoseAlone) {
  manual_seed(9);
  const std::vector<int64_t> q = {0, 40, 40, 137}, k = {0, 100, 130, 347};
  const Tensor query = randn({137, 4, 48}).to(kBFloat16), key = randn({347, 2, 48}).to(kBFloat16),
               value = randn({347, 2, 48}).to(kBFloat16);
  const Tensor packed =
      varlen_attention(query, key, value, tensor(std::vector<int32_t>(q.begin(), q.end())),
                       tensor(std::vector<int32_t>(k.begin(), k.end())), 97, 217, 0, true);
  for (size_t n = 0; n < 3; ++n) {
    if (q[n] == q[n + 1]) continue;
    const auto part = [&](const Tensor& x, const std::vector<int64_t>& at) {
      return x.slice(0, at[n], at[n + 1]).transpose(0, 1);
    };
    const Tensor alone = scaled_dot_product_attention(part(query, q), part(key, k), part(value, k),
                                                      {}, 0, true, {}, true);
    EXPECT_TRUE(equal(part(packed, q), alone)) << "sequence " << n;
  }
}

TEST(AttentionBfloat16, SameBitsForAnyNumberOfThreads) {
  manual_seed(10);
  for (const Sizes& s : samples()) {
    const std::vector<Tensor> from = operands(s);
    std::vector<Tensor> alone;
    for (const int threads : {1, 2, 5}) {
      const NumThreads scope(threads);
      const std::vector<Tensor> now = attend(from, s, kBFloat16);
      if (alone.empty()) alone = now;
      for (size_t i = 0; i < now.size(); ++i)
        EXPECT_TRUE(equal(now[i], alone[i])) << s << ", number " << i << ", threads " << threads;
    }
  }
}

}  // namespace
}  // namespace tensora
