#include "tensora/ops/paged/paged_attention.h"

#include <cmath>

#include "tensora/ops/quant/q8_0.h"
#include "tests/suite/cases.h"
#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

struct Sample {
  std::string name;
  int64_t heads, groups, size, block_size;
  std::vector<int64_t> lengths, queries;  // of each sequence
  int64_t spare = 0;                      // queries of no sequence
  DType cache = kFloat32;
  PagedAttentionOptions options = {};

  int64_t most_blocks() const {
    int64_t most = 1;
    for (int64_t length : lengths) most = std::max(most, (length + block_size - 1) / block_size);
    return most;
  }
  int64_t blocks() const { return most_blocks() * static_cast<int64_t>(lengths.size()) + 1; }
};

// Block k of sequence s; neighbours of a sequence are not neighbours in the cache.
int64_t block_of(const Sample& s, int64_t sequence, int64_t k) {
  const auto sequences = static_cast<int64_t>(s.lengths.size());
  return s.blocks() - 1 - (k * sequences + sequence);
}

std::vector<Input> inputs_of(const Sample& s) {
  const auto sequences = static_cast<int64_t>(s.lengths.size());
  std::vector<double> starts = {0}, lengths, table;
  for (int64_t q : s.queries) starts.push_back(starts.back() + static_cast<double>(q));
  for (int64_t length : s.lengths) lengths.push_back(static_cast<double>(length));
  for (int64_t i = 0; i < sequences; ++i)
    for (int64_t k = 0; k < s.most_blocks(); ++k)
      table.push_back(static_cast<double>(block_of(s, i, k)));
  const Shape cache{s.blocks(), s.groups, s.block_size, s.size};
  return {{{static_cast<int64_t>(starts.back()) + s.spare, s.heads, s.size}},
          {cache, -3, 3, kFloat32},
          {cache, -3, 3, kFloat32},
          {{sequences + 1}, 0, 1, kInt32, starts},
          {{sequences}, 0, 1, kInt32, lengths},
          {{sequences, s.most_blocks()}, 0, 1, kInt32, table}};
}

Tensor as_cache(const Tensor& numbers, DType dtype) {
  return is_quantized(dtype) ? quantize(numbers, dtype) : numbers.contiguous().to(dtype);
}
// What the cache holds of them.
Array held(const Array& numbers, DType dtype) {
  Array out = numbers;
  if (dtype != kQ8_0) {
    for (double& value : out.values) value = rounded(value, dtype);
    return out;
  }
  for (int64_t b = 0; b < out.numel(); b += 32) {
    float plain[32];
    for (int i = 0; i < 32; ++i) plain[i] = static_cast<float>(numbers[b + i]);
    BlockQ8_0 block;
    block.encode(plain);
    for (int i = 0; i < 32; ++i) out[b + i] = block.number(i);
  }
  return out;
}

ArrayList expected(Arrays x, const Sample& s) {
  Array out(x[0].sizes);
  const Array keys = held(x[1], s.cache), values = held(x[2], s.cache);
  const double scale = s.options.scale.value_or(1 / std::sqrt(static_cast<double>(s.size)));
  int64_t token = 0;
  for (size_t i = 0; i < s.lengths.size(); ++i)
    for (int64_t q = 0; q < s.queries[i]; ++q, ++token)
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t at = s.lengths[i] - s.queries[i] + q;
        const int64_t first =
            s.options.window > 0 ? std::max<int64_t>(0, at + 1 - s.options.window) : 0;
        const auto row = [&](int64_t p) {
          const int64_t block = block_of(s, static_cast<int64_t>(i), p / s.block_size);
          return ((block * s.groups + h / (s.heads / s.groups)) * s.block_size + p % s.block_size) *
                 s.size;
        };
        double sum = 0;
        const int64_t to = (token * s.heads + h) * s.size;
        for (int64_t p = first; p <= at; ++p) {
          double score = 0;
          for (int64_t d = 0; d < s.size; ++d) score += x[0][to + d] * keys[row(p) + d];
          score *= scale;
          if (s.options.softcap > 0)
            score = s.options.softcap * std::tanh(score / s.options.softcap);
          const double weight = std::exp(score);
          sum += weight;
          for (int64_t d = 0; d < s.size; ++d) out[to + d] += weight * values[row(p) + d];
        }
        for (int64_t d = 0; d < s.size && sum > 0; ++d) out[to + d] /= sum;
      }
  return one(out);
}

std::vector<Sample> samples() {
  const std::vector<int64_t> lengths = {5, 0, 37, 70}, queries = {1, 0, 3, 4};
  std::vector<Sample> all = {
      {"decode", 4, 2, 16, 16, {33, 1, 16}, {1, 1, 1}},
      {"mixed", 4, 2, 16, 16, lengths, queries},
      {"prefill", 2, 1, 12, 8, {45, 7}, {45, 7}},
      {"spare and early queries", 2, 2, 5, 4, {2, 6}, {4, 1}, 3},
      {"no sequences", 2, 2, 8, 4, {}, {}, 2},
      {"many keys", 2, 1, 8, 16, {1300}, {1}},
      {"many keys and queries", 2, 1, 8, 32, {1100, 600}, {40, 1}},
      {"many heads on one", 40, 1, 8, 16, {20}, {2}},
      {"softcap", 4, 2, 16, 16, lengths, queries, 0, kFloat32, {.scale = 0.5, .softcap = 3}},
      {"window", 4, 2, 16, 16, lengths, queries, 0, kFloat32, {.window = 7}},
      {"window of 1", 4, 2, 16, 16, lengths, queries, 0, kFloat32, {.window = 1}},
      {"wide window", 2, 1, 8, 16, {1300}, {3}, 0, kFloat32, {.window = 600}},
      {"long prefill", 4, 2, 64, 32, {260, 130}, {260, 70}, 0, kBFloat16},
      {"continued prefill", 2, 1, 128, 16, {333, 128}, {140, 1}, 0, kFloat16},
      {"prefill in odd blocks", 2, 1, 72, 24, {200}, {100}, 0, kFloat16},
      {"early and spare queries", 2, 2, 64, 16, {40, 150}, {100, 130}, 3, kBFloat16},
  };
  for (DType cache : {kFloat16, kBFloat16, kFloat8E4M3, kQ8_0}) {
    all.push_back({concat("cache of ", cache), 4, 2, 64, 16, lengths, queries, 0, cache});
    all.push_back({concat("prefill from ", cache), 2, 1, 64, 16, {190, 20}, {120, 20}, 0, cache});
  }
  return all;
}

}  // namespace

void paged_attention_cases(Cases& cases) {
  for (const Sample& s : samples())
    cases.add({.op = "paged_attention",
               .name = s.name,
               .inputs = inputs_of(s),
               .run =
                   [s](In x) {
                     return one(paged_attention(x[0], as_cache(x[1], s.cache),
                                                as_cache(x[2], s.cache), x[3], x[4], x[5],
                                                s.options));
                   },
               .reference = [s](Arrays x) { return expected(x, s); },
               .dtypes = {kFloat32, kFloat16, kBFloat16},
               .tolerance = 8,
               .opt_out = {{Mode::grad, "inference ops have no gradient"}}});
  const auto make = [](const Shape& sizes, DType dtype = kFloat32) {
    return zeros(sizes, {.dtype = dtype, .device = device()});
  };
  const auto call = [=](const Tensor& query, const Tensor& keys, const Tensor& starts,
                        PagedAttentionOptions options = {}) {
    paged_attention(query, keys, keys.clone(), starts, make({2}, kInt32), make({2, 3}, kInt32),
                    options);
  };
  cases.error("paged_attention", "head size", "query must have shape [tokens, heads, 8], got [3",
              [=] {
                call(make({3, 4, 6}), make({5, 2, 4, 8}), make({3}, kInt32));
              });
  cases.error("paged_attention", "heads", "3 heads cannot share the 2 heads of the cache evenly",
              [=] {
                call(make({3, 3, 8}), make({5, 2, 4, 8}), make({3}, kInt32));
              });
  cases.error("paged_attention", "starts", "query_starts must be int32 of shape [3], got int32 [2]",
              [=] {
                call(make({3, 4, 8}), make({5, 2, 4, 8}), make({2}, kInt32));
              });
  cases.error("paged_attention", "softcap", "softcap must be 0 or positive, got -1", [=] {
    call(make({3, 4, 8}), make({5, 2, 4, 8}), make({3}, kInt32), {.softcap = -1});
  });
  cases.error("paged_attention", "window", "window, max_query and max_length must not be negative",
              [=] {
                call(make({3, 4, 8}), make({5, 2, 4, 8}), make({3}, kInt32), {.window = -2});
              });
}

}  // namespace tensora::suite
