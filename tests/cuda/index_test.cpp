// Indices on the GPU: wrong ones are reported and survived, colliding ones add up.
#include <regex>

#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class IndexOnGpu : public Gpu {};

Tensor indices(std::initializer_list<int64_t> values) {
  return tensor(std::vector<int64_t>(values)).cuda();
}

struct Mistake {
  const char* op;  // that reads the indices
  std::function<Tensor()> run;
  std::string message;
};

TEST_F(IndexOnGpu, WrongIndicesAreReportedAndSurvived) {
  const Tensor x = sample({4, 3}).cuda(), line = sample({5}).cuda();
  const Tensor bad_rows = indices({0, 9}), negative = indices({1, -1});
  const Tensor places = tensor({0, 1, 7, 2, 0, 1}).reshape({2, 3}).cuda();
  const Tensor two_rows = sample({2, 3}).cuda();
  const Mistake mistakes[] = {
      {"index_select", [&] { return index_select(x, 0, bad_rows); },
       "index 9 .*dimension 0 with size 4"},
      {"index_select", [&] { return index_select(x, 0, negative); },
       "index -1 .*dimension 0 with size 4"},
      {"index_select", [&] { return index_select(x, 1, bad_rows); },
       "index 9 .*dimension 1 with size 3"},
      {"gather", [&] { return gather(x, 0, places); }, "index 7 .*dimension 0 with size 4"},
      {"scatter", [&] { return scatter(x, 0, places, two_rows); }, "index 7 .*size 4"},
      {"scatter", [&] { return scatter(x, 0, places, 1.5); }, "index 7 .*size 4"},
      {"scatter_add", [&] { return scatter_add(x, 0, places, two_rows); }, "index 7 .*size 4"},
      {"scatter_add",  // along lines whose sums are on the chip
       [&] {
         const Tensor beyond = full({200, 2}, 3, {.dtype = kInt64, .device = kCuda});
         return scatter_add(sample({200, 3}).cuda(), 1, beyond, sample({200, 2}).cuda());
       },
       "index 3 .*dimension 1 with size 3"},
      {"index_add", [&] { return index_add(x, 0, bad_rows, two_rows); }, "index 9 .*size 4"},
      {"index_copy", [&] { return index_copy(x, 0, bad_rows, two_rows); }, "index 9 .*size 4"},
      {"index_fill", [&] { return index_fill(x, 0, bad_rows, 2); }, "index 9 .*size 4"},
      {"index", [&] { return index(x, std::vector<TensorIndex>{bad_rows}); }, "index 9 .*size 4"},
      {"index", [&] { return index(x, std::vector<TensorIndex>{indices({-5})}); },
       "index -5 .*size 4"},
      {"index_put",
       [&] { return index_put_(x.clone(), std::vector<TensorIndex>{bad_rows}, two_rows); },
       "index 9 .*size 4"},
      {"index_put",
       [&] { return index_put_(x.clone(), std::vector<TensorIndex>{bad_rows}, two_rows, true); },
       "index 9 .*size 4"},
      {"take",
       [&] {
         return take(line, indices({1, 5}));
       },
       "index 5 .*size 5"},
      {"gather",
       [&] {
         return take_along_dim(line, indices({1, 5}));
       },
       "index 5 .*size 5"},
      {"one_hot",
       [&] {
         return one_hot(indices({1, 3}), 3);
       },
       "index 3 .*size 3"},
  };
  for (const bool deterministic : {false, true}) {
    const DeterministicScope scope(deterministic);
    for (const Mistake& mistake : mistakes) {
      SCOPED_TRACE(concat(mistake.op, deterministic ? ", deterministic" : ""));
      std::string text;
      try {
        mistake.run().cpu();
      } catch (const Error& error) {
        text = error.what();
      }
      EXPECT_TRUE(
          std::regex_search(text, std::regex(concat("^", mistake.op, ": ", mistake.message))))
          << text;
      // The device goes on, and the note is gone.
      expect_close(x + 1, x.cpu() + 1, 0);
    }
  }
}

TEST_F(IndexOnGpu, WrongWritesLeaveTheRestAlone) {
  const Tensor host = sample({6}), device = host.cuda();
  device.index_add_(0, indices({2, 100, 3}), tensor({1.f, 1.f, 1.f}).cuda());
  EXPECT_THROW(device.cpu(), Error);
  host.index_add_(0, tensor({2, 3}), tensor({1.f, 1.f}));
  expect_close(device, host, 0);
}

TEST_F(IndexOnGpu, ProbabilitiesAndWeightsAreChecked) {
  EXPECT_THROW(bernoulli(full({3}, 1.5, {.device = kCuda})).cpu(), Error);
  EXPECT_THROW(multinomial(full({3}, -1., {.device = kCuda}), 1).cpu(), Error);
  EXPECT_THROW(multinomial(zeros({3}, {.device = kCuda}), 1, true).cpu(), Error);
  EXPECT_THROW(multinomial(tensor({1.f, 0.f, 1.f}).cuda(), 3).cpu(), Error);
  EXPECT_NO_THROW(multinomial(tensor({1.f, 0.f, 1.f}).cuda(), 2).cpu());
}

// Lines that fit on the chip, and lines that do not; every element is written once.
TEST_F(IndexOnGpu, ReadingAndWritingLines) {
  for (const DType dtype : {kBool, kBFloat16, kFloat32, kInt64, kComplex128})
    for (const int64_t n : {7, 64, 1001, 4096, 40000})
      for (const DType index_dtype : {kInt64, kInt32}) {
        SCOPED_TRACE(concat(dtype, " ", n, " ", index_dtype));
        const int64_t rows = n > 5000 ? 140 : 300;
        const Tensor host = sample({rows, n}, dtype, 0, 9), src = sample({rows, n}, dtype, 1, 5);
        const Tensor order = argsort(sample({rows, n}, kFloat32), 1).to(index_dtype);
        const Tensor some = order.narrow(1, 0, (n + 1) / 2).contiguous();
        const auto same = [&](auto&& op) {
          const Tensor actual = op(host.cuda(), order.cuda(), some.cuda(), src.cuda()).cpu(),
                       expected = op(host, order, some, src);
          EXPECT_TRUE(equal(actual, expected));
        };
        same([](auto x, auto all, auto, auto) { return gather(x, 1, all); });
        same([](auto x, auto, auto half, auto) { return gather(x, 1, half); });
        same([](auto x, auto all, auto, auto y) { return scatter(x, 1, all, y); });
        same([](auto x, auto, auto half, auto) { return scatter(x, 1, half, 1); });
        same([](auto x, auto, auto half, auto y) { return scatter(x, 1, half, y); });
        same([](auto x, auto, auto half, auto y) { return x.clone().scatter_(1, half, y); });
        same([](auto x, auto, auto half, auto y) { return scatter(x.t(), 0, half.t(), y.t()); });
      }
  const Tensor beyond = full({200, 3}, 3, {.dtype = kInt64, .device = kCuda});
  EXPECT_THROW(gather(sample({200, 3}).cuda(), 1, beyond).cpu(), Error);
  EXPECT_THROW(scatter(sample({200, 3}).cuda(), 1, beyond, 2.0).cpu(), Error);
}

// So many elements that a thread moves several: rows in wide accesses, columns one by one.
TEST_F(IndexOnGpu, ManyRowsAndColumns) {
  const Tensor table = sample({3001, 1032}, kBFloat16), there = table.cuda();
  const Tensor rows = (arange(0, 9001) * 7919) % 3001, columns = (arange(0, 700) * 37) % 1032;
  const Tensor sorted = arange(0, 3001).flip({0});
  EXPECT_TRUE(equal(index_select(there, 0, rows.cuda()).cpu(), index_select(table, 0, rows)));
  EXPECT_TRUE(equal(index_select(there, 1, columns.cuda()).cpu(), index_select(table, 1, columns)));
  EXPECT_TRUE(
      equal(index_copy(there, 0, sorted.cuda(), there).cpu(), index_copy(table, 0, sorted, table)));
}

// Many values for few places, in every dtype and shape of lines.
TEST_F(IndexOnGpu, CollidingSums) {
  const int64_t n = 20000;
  const Tensor rows = sample({n}, kInt64, 0, 7);
  for (const bool deterministic : {false, true}) {
    const DeterministicScope scope(deterministic);
    for (DType dtype : {kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat32, kFloat64}) {
      SCOPED_TRACE(concat(dtype, deterministic ? ", deterministic" : ""));
      const double tolerance = dtype == kFloat32 ? 1e-4 : dtype == kFloat64 ? 1e-9 : 0;
      const Tensor line = sample({n}, dtype, 0, 3), target = sample({7}, dtype, 0, 3);
      expect_close(scatter_add(target.cuda(), 0, rows.cuda(), line.cuda()),
                   scatter_add(target, 0, rows, line), tolerance);
      expect_close(index_add(target.cuda(), 0, rows.cuda(), line.cuda()),
                   index_add(target, 0, rows, line), tolerance);
      const Tensor wide = sample({n, 5}, dtype, 0, 3), table = sample({7, 5}, dtype, 0, 3);
      expect_close(index_add(table.cuda(), 0, rows.cuda(), wide.cuda()),
                   index_add(table, 0, rows, wide), tolerance);
      expect_close(
          index_add(table.cuda().transpose(0, 1), 1, rows.cuda(), wide.cuda().transpose(0, 1)),
          index_add(table.transpose(0, 1), 1, rows, wide.transpose(0, 1)), tolerance);
    }
  }
}

TEST_F(IndexOnGpu, HalfSumsOfFewValues) {
  const Tensor rows = sample({64}, kInt64, 0, 16);
  for (const bool deterministic : {false, true}) {
    const DeterministicScope scope(deterministic);
    for (DType dtype : {kFloat16, kBFloat16, kBool}) {
      const Tensor line = sample({64}, dtype, 0, 3), target = sample({16}, dtype, 0, 3);
      expect_close(scatter_add(target.cuda(), 0, rows.cuda(), line.cuda()),
                   scatter_add(target, 0, rows, line), dtype == kBFloat16 ? 4e-2 : 5e-3);
    }
  }
}

TEST_F(IndexOnGpu, DeterministicMeansTheSameBitsAndTheLastWrite) {
  const DeterministicScope scope(true);
  const int64_t n = 100000;
  const Tensor rows = sample({n}, kInt64, 0, 11).cuda(), line = sample({n}).cuda();
  const Tensor first = zeros({11}, {.device = kCuda}).index_add(0, rows, line);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(equal(zeros({11}, {.device = kCuda}).index_add(0, rows, line), first));
  const Tensor host_rows = rows.cpu(), host_line = line.cpu(), target = zeros({11});
  expect_close(scatter(target.cuda(), 0, rows, line), scatter(target, 0, host_rows, host_line), 0);
  expect_close(index_copy(target.cuda(), 0, rows, line),
               index_copy(target, 0, host_rows, host_line), 0);
}

TEST_F(IndexOnGpu, NonzeroAndMaskedSelect) {
  for (const Shape& sizes : {Shape{}, Shape{0}, Shape{1}, Shape{31}, Shape{2049}, Shape{3, 700, 41},
                             Shape{1 << 20}, Shape{5000003}}) {
    SCOPED_TRACE(to_string(sizes));
    const Tensor mask = sample(sizes, kFloat32, 0, 3) > 1;
    expect_close(nonzero(mask.cuda()), nonzero(mask), 0);
    const Tensor x = sample(sizes);
    expect_close(masked_select(x.cuda(), mask.cuda()), masked_select(x, mask), 0);
  }
}

TEST_F(IndexOnGpu, RandomOrdersAndDrawsAreTheHosts) {
  for (int64_t n : {1, 2, 31, 1023, 1024, 1025, 4096, 4097, 100003, 3000000}) {
    manual_seed(3);
    const Tensor host = randperm(n);
    manual_seed(3);
    EXPECT_TRUE(equal(randperm(n, {.device = kCuda}).cpu(), host)) << n;
  }
  for (const Shape& sizes : {Shape{10}, Shape{4, 50000}, Shape{300, 7}}) {
    const Tensor weights = sample(sizes, kFloat32, 0, 2);
    for (const bool replacement : {false, true}) {
      manual_seed(5);
      const Tensor host = multinomial(weights, 6, replacement);
      manual_seed(5);
      EXPECT_TRUE(equal(multinomial(weights.cuda(), 6, replacement).cpu(), host)) << sizes.size();
    }
  }
  // One round of the race, several, and so many samples that everything is sorted.
  for (const int64_t samples : {1, 700, 1024, 1025, 5000}) {
    const Tensor weights = sample({2, 200003}, kFloat32, -1, 2).clamp_min(0);
    manual_seed(9);
    const Tensor host = multinomial(weights, samples);
    manual_seed(9);
    EXPECT_TRUE(equal(multinomial(weights.cuda(), samples).cpu(), host)) << samples;
  }
  for (DType dtype : {kInt32, kFloat64, kInt16}) {  // and into strides
    manual_seed(11);
    const Tensor host = randperm(2000, {.dtype = dtype});
    manual_seed(11);
    EXPECT_TRUE(equal(randperm(2000, {.dtype = dtype, .device = kCuda}).cpu(), host));
  }
  for (DType dtype : {kFloat16, kFloat32, kFloat64}) {
    const Tensor p = sample({77, 130}, dtype, 0, 1), row = sample({130}, dtype, 0, 1);
    manual_seed(7);
    const Tensor host = bernoulli(p), broadcast = bernoulli_(empty({77, 130}), row);
    manual_seed(7);
    EXPECT_TRUE(equal(bernoulli(p.cuda()).cpu(), host));
    EXPECT_TRUE(
        equal(bernoulli_(empty({77, 130}, {.device = kCuda}), row.cuda()).cpu(), broadcast));
  }
}

}  // namespace
}  // namespace tensora::test
