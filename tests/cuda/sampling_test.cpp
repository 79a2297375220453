// Tokens chosen on the GPU are those that the CPU chooses.

#include "tensora/backend/cuda/runtime/graph.h"
#include "tensora/ops/sampling/sample_tokens.h"
#include "tests/cuda/gpu.h"

namespace tensora::test {
namespace {

class SamplingOnGpu : public Gpu {};

struct Choices {
  Tensor numbers, integers;
};

// Row r draws with its own seed; every fifth row takes the highest logit.
Choices make_choices(int64_t rows, int64_t top_k, double top_p, double min_p, int64_t draw) {
  Choices c{empty({rows, 3}, {.dtype = kFloat64}), empty({rows, 3}, {.dtype = kInt64})};
  for (int64_t r = 0; r < rows; ++r) {
    double* const numbers = c.numbers.data_ptr<double>() + r * 3;
    int64_t* const integers = c.integers.data_ptr<int64_t>() + r * 3;
    numbers[0] = r % 5 == 4 ? 0 : 0.2 + 0.3 * static_cast<double>(r % 7);
    numbers[1] = top_p, numbers[2] = min_p;
    integers[0] = top_k, integers[1] = 1000 + r, integers[2] = draw;
  }
  return c;
}

void expect_equal(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(to_vector<int64_t>(actual), to_vector<int64_t>(expected));
}

void check_rows(const Tensor& logits) {
  const Tensor on_gpu = logits.to(kCuda);
  for (int64_t top_k : {1, 2, 40, 500, 1024})
    for (double top_p : {1.0, 0.9, 0.3})
      for (double min_p : {0.0, 0.05}) {
        SCOPED_TRACE(concat("top_k ", top_k, ", top_p ", top_p, ", min_p ", min_p));
        const Choices c = make_choices(logits.size(0), top_k, top_p, min_p, top_k);
        expect_equal(sample_tokens(on_gpu, c.numbers.to(kCuda), c.integers.to(kCuda)),
                     sample_tokens(logits, c.numbers, c.integers));
      }
}

TEST_F(SamplingOnGpu, Vocabularies) {
  manual_seed(31);
  for (int64_t vocabulary : {1, 7, 1023, 4096, 32001, 128256}) {
    SCOPED_TRACE(concat("vocabulary of ", vocabulary));
    check_rows(randn({9, vocabulary}) * 4);
  }
}

TEST_F(SamplingOnGpu, EqualLogits) {
  manual_seed(32);
  check_rows(randint(-3, 3, {5, 32000}).to(kFloat32));
  check_rows(ones({2, 50000}));
  // The highest of all are the logits of few threads.
  const Tensor logits = randn({2, 65536});
  logits.narrow(1, 0, 3000).add_(50);
  check_rows(logits);
}

TEST_F(SamplingOnGpu, UnusableLogits) {
  const Tensor logits = randn({4, 5000});
  logits.select(0, 0).fill_(-HUGE_VAL);
  logits.select(0, 1).narrow(0, 4000, 1).fill_(NAN);
  logits.select(0, 2).narrow(0, 1, 1).fill_(HUGE_VAL);
  logits.select(0, 3).narrow(0, 3, 4900).fill_(-HUGE_VAL);
  check_rows(logits);
}

TEST_F(SamplingOnGpu, ARecordedChoiceReadsItsNumbersAnew) {
  manual_seed(33);
  const Tensor logits = randn({6, 32000}) * 3, on_gpu = logits.to(kCuda);
  const Choices first = make_choices(6, 40, 0.95, 0.05, 0);
  const Tensor numbers = first.numbers.to(kCuda), integers = first.integers.to(kCuda);
  Tensor tokens = sample_tokens(on_gpu, numbers, integers);
  cuda::Graph graph;
  graph.capture([&] { tokens = sample_tokens(on_gpu, numbers, integers); });
  for (int64_t draw = 1; draw < 5; ++draw) {
    const Choices c = make_choices(6, 10 * draw, 1 - 0.1 * static_cast<double>(draw), 0, draw);
    numbers.copy_(c.numbers.to(kCuda));
    integers.copy_(c.integers.to(kCuda));
    graph.replay();
    expect_equal(tokens, sample_tokens(logits, c.numbers, c.integers));
  }
}

}  // namespace
}  // namespace tensora::test
