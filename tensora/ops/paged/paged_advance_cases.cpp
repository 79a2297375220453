#include "tensora/ops/paged/paged_advance.h"

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr int64_t kSequences = 5, kBlocks = 3, kBlockSize = 4;

// The last sequence leaves the table; the fourth has no token.
std::vector<Input> inputs() {
  const auto row = [](std::vector<double> values, DType dtype = kInt64) {
    return Input{{kSequences}, 0, 1, dtype, std::move(values)};
  };
  return {row({7, 8, 9, 10, 11}),
          row({0, 3, 6, 8, 11}),
          row({20, 31, 12, 5, 3}),
          row({1, 4, 7, 9, 12}, kInt32),
          {{kSequences, 3}, 0, 50, kInt64},
          row({100, 0, 3, -1, 12}),
          {{kSequences, kBlocks}, 0, 40, kInt32}};
}

ArrayList expected(Arrays x) {
  Array tokens = x[5], positions = x[1], slots = x[2], lengths = x[3], choices = x[4];
  for (int64_t s = 0; s < kSequences; ++s) {
    tokens[s] = std::max(tokens[s], 0.0);
    lengths[s] += 1;
    choices[s * 3 + 2] += 1;
    const auto position = static_cast<int64_t>(positions[s] += 1);
    slots[s] = position >= kBlocks * kBlockSize
                   ? -1
                   : x[6][s * kBlocks + position / kBlockSize] * double{kBlockSize} +
                         static_cast<double>(position % kBlockSize);
  }
  return {tokens, positions, slots, lengths, choices};
}

}  // namespace

void paged_advance_cases(Cases& cases) {
  cases.add({.op = "paged_advance",
             .name = "five sequences",
             .inputs = inputs(),
             .run =
                 [](In x) {
                   Out out;
                   for (size_t i = 0; i < 5; ++i) out.push_back(x[i].contiguous().clone());
                   paged_advance(out[0], out[1], out[2], out[3], out[4], x[5], x[6], kBlockSize);
                   return out;
                 },
             .reference = expected,
             .dtypes = {kInt64},
             .opt_out = {{Mode::grad, "integers have no gradient"}},
             .output_dtypes = {{}, {}, {}, kInt32, {}}});
  const auto make = [](const Shape& sizes, DType dtype = kInt64) {
    return zeros(sizes, {.dtype = dtype, .device = device()});
  };
  const auto call = [=](const Tensor& lengths, const Tensor& choices, int64_t block_size) {
    paged_advance(make({2}), make({2}), make({2}), lengths, choices, make({2}),
                  make({2, 3}, kInt32), block_size);
  };
  cases.error("paged_advance", "lengths", "lengths must be int32 of shape [2], got int64 [2]", [=] {
    call(make({2}), make({2, 3}), 4);
  });
  cases.error("paged_advance", "choices", "choices must be int64 of shape [2, 3], got int64 [2, 2]",
              [=] {
                call(make({2}, kInt32), make({2, 2}), 4);
              });
  cases.error("paged_advance", "block size", "block_size must be positive, got 0", [=] {
    call(make({2}, kInt32), make({2, 3}), 0);
  });
}

}  // namespace tensora::suite
