#include "tensora/ops/paged/paged_self_attention.h"

#include <cmath>

#include "tests/suite/cases.h"
#include "tests/suite/samples.h"

namespace tensora::suite {
namespace {

// One token of each sequence, its last. Blocks of a sequence lie side by side.
struct Sample {
  std::string name;
  int64_t heads, groups, size;
  std::vector<int64_t> lengths;
  bool in_halves = true;
  PagedAttentionOptions options = {};

  static constexpr int64_t kBlockSize = 16, kPositions = 700;
  int64_t sequences() const { return static_cast<int64_t>(lengths.size()); }
  int64_t most_blocks() const {
    return (*std::max_element(lengths.begin(), lengths.end()) + kBlockSize - 1) / kBlockSize;
  }
  int64_t slot(int64_t s, int64_t position) const {
    return s * most_blocks() * kBlockSize + position;
  }
};

// qkv, positions, slots, cos_sin, both caches, starts, lengths, the table of blocks.
std::vector<Input> inputs_of(const Sample& s) {
  std::vector<double> positions, slots, starts = {0}, lengths, table;
  for (int64_t i = 0; i < s.sequences(); ++i) {
    const int64_t length = s.lengths[static_cast<size_t>(i)];
    positions.push_back(static_cast<double>(length - 1));
    slots.push_back(static_cast<double>(s.slot(i, length - 1)));
    starts.push_back(static_cast<double>(i + 1));
    lengths.push_back(static_cast<double>(length));
    for (int64_t b = 0; b < s.most_blocks(); ++b)
      table.push_back(static_cast<double>(i * s.most_blocks() + b));
  }
  const Shape cache{s.sequences() * s.most_blocks(), s.groups, Sample::kBlockSize, s.size};
  return {{{s.sequences(), (s.heads + 2 * s.groups) * s.size}},
          {{s.sequences()}, 0, 1, kInt64, positions},
          {{s.sequences()}, 0, 1, kInt64, slots},
          {{Sample::kPositions, s.size}, -1, 1, kFloat32},
          {cache, -3, 3},
          {cache, -3, 3},
          {{s.sequences() + 1}, 0, 1, kInt32, starts},
          {{s.sequences()}, 0, 1, kInt32, lengths},
          {{s.sequences(), s.most_blocks()}, 0, 1, kInt32, table}};
}

Out attended(In x, const Sample& s) {
  const Tensor keys = x[4].clone(), values = x[5].clone();
  PagedAttentionOptions options = s.options;
  options.max_query = 1;
  const Tensor result = paged_self_attention(
      x[0], x[1], x[2], keys, values, x[3], x[6], x[7], x[8],
      {.store = {.heads = s.heads, .kv_heads = s.groups, .in_halves = s.in_halves},
       .attention = options});
  return {result, keys, values};
}

// A head of qkv, turned by the angles of a position.
std::vector<double> turned(Arrays x, const Sample& s, int64_t token, int64_t head) {
  const auto begin = x[0].values.begin() + (token * (s.heads + 2 * s.groups) + head) * s.size;
  std::vector<double> out(begin, begin + s.size);
  const auto position = static_cast<int64_t>(x[1][token]);
  for (int64_t i = 0; i < s.size / 2; ++i) {
    const double c = x[3][position * s.size + i], sn = x[3][position * s.size + s.size / 2 + i];
    double& a = out[static_cast<size_t>(s.in_halves ? i : 2 * i)];
    double& b = out[static_cast<size_t>(s.in_halves ? i + s.size / 2 : 2 * i + 1)];
    const double first = a * c - b * sn;
    b = b * c + a * sn;
    a = first;
  }
  return out;
}

ArrayList expected(Arrays x, const Sample& s) {
  Array result({s.sequences(), s.heads, s.size}), keys = x[4], values = x[5];
  const auto row = [&](int64_t slot, int64_t group) {
    return ((slot / Sample::kBlockSize * s.groups + group) * Sample::kBlockSize +
            slot % Sample::kBlockSize) *
           s.size;
  };
  for (int64_t t = 0; t < s.sequences(); ++t) {
    const int64_t length = s.lengths[static_cast<size_t>(t)];
    for (int64_t g = 0; g < s.groups; ++g) {
      const std::vector<double> key = turned(x, s, t, s.heads + g);
      const int64_t to = row(s.slot(t, length - 1), g);
      const int64_t from = (t * (s.heads + 2 * s.groups) + s.heads + s.groups + g) * s.size;
      for (int64_t d = 0; d < s.size; ++d) {
        keys[to + d] = key[static_cast<size_t>(d)];
        values[to + d] = x[0][from + d];
      }
    }
    for (int64_t h = 0; h < s.heads; ++h) {
      const std::vector<double> query = turned(x, s, t, h);
      const int64_t first =
          s.options.window > 0 ? std::max<int64_t>(0, length - s.options.window) : 0;
      const int64_t to = (t * s.heads + h) * s.size;
      double sum = 0;
      for (int64_t p = first; p < length; ++p) {
        const int64_t at = row(s.slot(t, p), h / (s.heads / s.groups));
        double score = 0;
        for (int64_t d = 0; d < s.size; ++d) score += query[static_cast<size_t>(d)] * keys[at + d];
        score /= std::sqrt(static_cast<double>(s.size));
        if (s.options.softcap > 0) score = s.options.softcap * std::tanh(score / s.options.softcap);
        const double weight = std::exp(score);
        sum += weight;
        for (int64_t d = 0; d < s.size; ++d) result[to + d] += weight * values[at + d];
      }
      for (int64_t d = 0; d < s.size; ++d) result[to + d] /= sum;
    }
  }
  return {result, keys, values};
}

}  // namespace

void paged_self_attention_cases(Cases& cases) {
  const Sample samples[] = {{"first token", 4, 2, 64, {1}},
                            {"one sequence", 8, 2, 64, {70}},
                            {"several sequences", 4, 4, 128, {33, 1, 64, 65}},
                            {"many keys", 4, 1, 64, {640}},
                            {"pairs", 2, 1, 128, {17, 130}, false},
                            {"window", 4, 2, 64, {90, 5}, true, {.window = 40}},
                            {"softcap", 4, 2, 64, {90}, true, {.softcap = 3}},
                            {"another head size", 4, 2, 16, {20, 3}}};
  for (const Sample& s : samples)
    cases.add({.op = "paged_self_attention",
               .name = s.name,
               .inputs = inputs_of(s),
               .run = [s](In x) { return attended(x, s); },
               .reference = [s](Arrays x) { return expected(x, s); },
               .dtypes = {kFloat32, kFloat16, kBFloat16},
               .tolerance = 16,
               .opt_out = {{Mode::grad, "inference ops have no gradient"},
                           {Mode::view, "expanded slots would be one slot for all tokens"},
                           {Mode::jit, "the caches are written in place"}}});
  cases.error("paged_self_attention", "undefined", "one is undefined",
              [] { paged_self_attention({}, {}, {}, {}, {}, {}, {}, {}, {}, {.store = {}}); });
}

}  // namespace tensora::suite
