// set_deterministic on the GPU: for every path of the table in docs/cuda.md, the same bits again
// and again while another stream keeps the device busy.
#include "tensora/backend/cuda/cuda.h"
#include "tensora/backend/cuda/loops/ordered.h"
#include "tensora/backend/cuda/matmul/matmul.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

struct Path {
  const char* name;
  std::function<Tensor(DType)> run;
};

Tensor gradient(const Tensor& leaf, const std::function<Tensor(const Tensor&)>& body,
                const Tensor& upstream) {
  const Tensor x = leaf.detach().requires_grad_();
  body(x).backward(upstream);
  return x.grad();
}

class DeterminismOnGpu : public Gpu {
 protected:
  static constexpr int64_t kValues = 60000, kPlaces = 13;

  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped()) return;
    rows = sample({kValues}, kInt64, 0, kPlaces).cuda();
    side.emplace();
    noise = full({1 << 22}, 1.f, {.device = kCuda});
  }
  Tensor line(DType dtype) const { return sample({kValues}, dtype).cuda(); }
  Tensor wide(DType dtype) const { return sample({kValues, 6}, dtype).cuda(); }
  Tensor target(DType dtype) const { return sample({kPlaces}, dtype).cuda(); }
  Tensor table(DType dtype) const { return sample({kPlaces, 6}, dtype).cuda(); }

  // Work that shifts when blocks of the paths get their turn.
  void disturb() const {
    const cuda::StreamGuard guard(*side);
    for (int i = 0; i < 8; ++i) noise.mul_(1.0001f);
  }
  void expect_same_bits(std::span<const Path> paths, std::initializer_list<DType> dtypes) const {
    for (const Path& path : paths)
      for (const DType dtype : dtypes) {
        SCOPED_TRACE(concat(path.name, " ", dtype));
        const Tensor first = path.run(dtype).cpu();
        for (int i = 0; i < 5; ++i) {
          disturb();
          EXPECT_TRUE(equal(path.run(dtype).cpu(), first)) << "run " << i + 2;
        }
      }
  }

  Tensor rows;
  std::optional<cuda::Stream> side;  // made in SetUp: without a GPU there is none
  Tensor noise;
};

TEST_F(DeterminismOnGpu, SumsIntoPlaces) {
  const DeterministicScope scope(true);
  const Path paths[] = {
      {"scatter_add", [&](DType t) { return scatter_add(target(t), 0, rows, line(t)); }},
      // Without the scope, sums of such lines are made on the chip, in any order.
      {"scatter_add along many lines",
       [&](DType t) {
         const Tensor places = sample({200, 300}, kInt64, 0, kPlaces).cuda();
         return scatter_add(sample({200, kPlaces}, t).cuda(), 1, places,
                            sample({200, 300}, t).cuda());
       }},
      {"index_add", [&](DType t) { return index_add(target(t), 0, rows, line(t)); }},
      {"index_add of rows", [&](DType t) { return index_add(table(t), 0, rows, wide(t)); }},
      {"index_put",
       [&](DType t) {
         return index_put_(target(t), std::vector<TensorIndex>{rows}, line(t), true);
       }},
      {"gather's gradient",
       [&](DType t) {
         return gradient(
             target(t), [&](const Tensor& x) { return gather(x, 0, rows); }, line(t));
       }},
      {"index's gradient",
       [&](DType t) {
         return gradient(
             table(t), [&](const Tensor& x) { return index(x, std::vector<TensorIndex>{rows}); },
             wide(t));
       }},
      {"index_select's gradient",
       [&](DType t) {
         return gradient(
             table(t), [&](const Tensor& x) { return index_select(x, 0, rows); }, wide(t));
       }},
      {"take's gradient",
       [&](DType t) {
         return gradient(
             target(t), [&](const Tensor& x) { return take(x, rows); }, line(t));
       }},
  };
  expect_same_bits(paths, {kFloat32, kFloat64, kFloat16, kBFloat16});
}

// Half types are added up in float: a thousand ones are a thousand.
TEST_F(DeterminismOnGpu, HalfSumsAreWide) {
  const DeterministicScope scope(true);
  const Tensor ones_ = ones({4096}, {.dtype = kBFloat16, .device = kCuda});
  const Tensor places = zeros({4096}, {.dtype = kInt64, .device = kCuda});
  const Tensor sums =
      zeros({1}, {.dtype = kBFloat16, .device = kCuda}).scatter_add(0, places, ones_);
  EXPECT_EQ(sums.to(kFloat32).item<float>(), 4096);
}

TEST_F(DeterminismOnGpu, OfRepeatedWritesTheLastStays) {
  const DeterministicScope scope(true);
  const Tensor host_rows = rows.cpu();
  for (const DType dtype : {kFloat32, kInt64, kBFloat16, kUInt8}) {
    SCOPED_TRACE(name(dtype));
    const Tensor values = sample({kValues}, dtype, 0, 100), to = sample({kPlaces}, dtype, 0, 100);
    const Tensor lines = sample({kValues, 6}, dtype, 0, 100), all = sample({kPlaces, 6}, dtype);
    expect_close(scatter(to.cuda(), 0, rows, values.cuda()), scatter(to, 0, host_rows, values), 0);
    expect_close(index_copy(all.cuda(), 0, rows, lines.cuda()),
                 index_copy(all, 0, host_rows, lines), 0);
    expect_close(index_put_(to.cuda(), std::vector<TensorIndex>{rows}, values.cuda()),
                 index_put_(to.clone(), std::vector<TensorIndex>{host_rows}, values), 0);
  }
}

TEST_F(DeterminismOnGpu, TooManyValuesAreRefusedByName) {
  const std::string text = message_of([] { cuda::PairMemory("scatter_add", 0, int64_t{1} << 31); });
  EXPECT_NE(text.find("scatter_add: 2147483648 values cannot be sorted"), std::string::npos)
      << text;
}

// Paths that promise the same bits without being asked.
TEST_F(DeterminismOnGpu, EverythingElse) {
  for (const bool deterministic : {false, true}) {
    const DeterministicScope scope(deterministic);
    const Path paths[] = {
        {"sum", [&](DType t) { return wide(t).sum(); }},
        {"sum over rows", [&](DType t) { return wide(t).sum({0}); }},
        {"var", [&](DType t) { return wide(t).var(Dims{0}); }},
        {"cumsum", [&](DType t) { return wide(t).cumsum(0); }},
        {"matmul", [&](DType t) { return matmul(wide(t).transpose(0, 1), wide(t)); }},
        {"linear's gradient",
         [&](DType t) {
           return gradient(
               table(t), [&](const Tensor& w) { return linear(wide(t), w); },
               sample({kValues, kPlaces}, t).cuda());
         }},
        {"integer sums into places",
         [&](DType) { return scatter_add(target(kInt32), 0, rows, line(kInt32)); }},
    };
    expect_same_bits(paths, {kFloat32, kBFloat16});
  }
}

}  // namespace
}  // namespace tensora::test
