#include "tensora/ops/paged/paged_store.h"

#include <cmath>

#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

struct Sample {
  int64_t heads, kv_heads, size, turned;
  DType cache;
  bool in_halves, norms, unit_offset;
};
constexpr int64_t kTokens = 5, kBlocks = 3, kBlockSize = 4, kPositions = 9;
const std::vector<double> kAt = {0, 8, 3, 3, 1}, kSlots = {11, 0, -1, 6, 5};

// Inputs: qkv, positions, slots, cos_sin, the caches before, the norms' weights.
std::vector<Input> inputs_of(const Sample& s) {
  const Shape cache{kBlocks, s.kv_heads, kBlockSize, s.size};
  return {{{kTokens, (s.heads + 2 * s.kv_heads) * s.size}},
          {{kTokens}, 0, 1, kInt64, kAt},
          {{kTokens}, 0, 1, kInt64, kSlots},
          {{kPositions, s.turned}, -1, 1, kFloat32},
          {cache, -3, 3, kFloat32},
          {cache, -3, 3, kFloat32},
          {{s.size}, 0.5, 2},
          {{s.size}, 0.5, 2}};
}

Tensor as_cache(const Tensor& numbers, DType dtype) {
  return is_quantized(dtype) ? quantize(numbers, dtype) : numbers.clone().to(dtype);
}
Tensor as_floats(const Tensor& cache) {
  return cache.is_quantized() ? dequantize(cache) : cache.to(kFloat32);
}

Out stored(In x, const Sample& s) {
  const Tensor keys = as_cache(x[4], s.cache), values = as_cache(x[5], s.cache);
  const Tensor query = paged_store(x[0], x[1], x[2], keys, values, x[3],
                                   {.heads = s.heads,
                                    .kv_heads = s.kv_heads,
                                    .in_halves = s.in_halves,
                                    .q_norm = s.norms ? x[6] : Tensor(),
                                    .k_norm = s.norms ? x[7] : Tensor(),
                                    .eps = 1e-5,
                                    .unit_offset = s.unit_offset});
  return {query, as_floats(keys), as_floats(values)};
}

// One head, normalised and turned.
std::vector<double> prepared(std::vector<double> x, const Array& weight, const Array& table,
                             int64_t position, const Sample& s) {
  const auto at = [](auto& list, int64_t i) -> auto& { return list[static_cast<size_t>(i)]; };
  if (s.norms) {
    double square = 0;
    for (double value : x) square += value * value;
    const double factor = 1 / std::sqrt(square / static_cast<double>(s.size) + 1e-5);
    for (int64_t d = 0; d < s.size; ++d) at(x, d) *= factor * (weight[d] + s.unit_offset);
  }
  const int64_t half = s.turned / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double c = table[position * s.turned + i], sn = table[position * s.turned + half + i];
    double &a = at(x, s.in_halves ? i : 2 * i), &b = at(x, s.in_halves ? i + half : 2 * i + 1);
    const double first = a * c - b * sn;
    b = b * c + a * sn;
    a = first;
  }
  return x;
}

ArrayList expected(Arrays x, const Sample& s) {
  Array query({kTokens, s.heads, s.size}), keys = x[4], values = x[5];
  const int64_t all = s.heads + 2 * s.kv_heads;
  for (int64_t t = 0; t < kTokens; ++t)
    for (int64_t h = 0; h < all; ++h) {
      const auto begin = x[0].values.begin() + (t * all + h) * s.size;
      std::vector<double> head(begin, begin + s.size);
      const bool is_query = h < s.heads, is_value = h >= s.heads + s.kv_heads;
      if (!is_value)
        head = prepared(head, x[is_query ? 6 : 7], x[3], static_cast<int64_t>(x[1][t]), s);
      const auto slot = static_cast<int64_t>(x[2][t]);
      if (!is_query && slot < 0) continue;
      const int64_t group = h - s.heads - (is_value ? s.kv_heads : 0);
      const int64_t row =
          is_query ? t * s.heads + h
                   : (slot / kBlockSize * s.kv_heads + group) * kBlockSize + slot % kBlockSize;
      Array& to = is_query ? query : is_value ? values : keys;
      std::copy(head.begin(), head.end(), to.values.begin() + row * s.size);
    }
  return {query, keys, values};
}

// How coarse the cache is: half a step at the numbers that occur.
double tolerance_of_cache(DType dtype) {
  return dtype == kFloat32 ? 4 : dtype == kFloat16 ? 100 : dtype == kBFloat16 ? 800 : 8000;
}

}  // namespace

void paged_store_cases(Cases& cases) {
  const Sample samples[] = {
      {4, 2, 16, 16, kFloat32, true, false, false}, {4, 2, 16, 16, kFloat32, false, false, false},
      {3, 1, 12, 8, kFloat32, true, true, false},   {2, 2, 10, 4, kFloat32, false, true, true},
      {4, 2, 16, 16, kFloat16, true, false, false}, {4, 2, 16, 16, kBFloat16, true, false, false},
      {4, 2, 16, 8, kFloat8E4M3, true, true, true}, {4, 2, 64, 64, kQ8_0, false, false, false},
      {1, 1, 8, 0, kFloat32, true, false, false}};
  for (const Sample& s : samples)
    cases.add({.op = "paged_store",
               .name = concat(s.cache, " ", s.heads, "/", s.kv_heads, " heads of ", s.size,
                              s.in_halves ? ", halves" : ", pairs", s.norms ? ", normed" : "",
                              s.unit_offset ? " from 1" : ""),
               .inputs = inputs_of(s),
               .run = [s](In x) { return stored(x, s); },
               .reference = [s](Arrays x) { return expected(x, s); },
               .dtypes = {kFloat32, kFloat16, kBFloat16},
               .tolerance = tolerance_of_cache(s.cache),
               .opt_out = {{Mode::grad, "inference ops have no gradient"},
                           {Mode::view, "expanded slots would be one slot for all tokens"},
                           {Mode::jit, "the caches are written in place"}},
               .output_dtypes = {{}, kFloat32, kFloat32}});
  const auto make = [](const Shape& sizes, DType dtype = kFloat32) {
    return zeros(sizes, {.dtype = dtype, .device = device()});
  };
  const auto call = [=](const Tensor& qkv, const Tensor& keys, const Tensor& positions,
                        const Tensor& slots, const Tensor& table) {
    paged_store(qkv, positions, slots, keys, keys.clone(), table, {.heads = 2, .kv_heads = 1});
  };
  const auto numbers = [=](double value) {
    return full({3}, value, {.dtype = kInt64, .device = device()});
  };
  cases.error("paged_store", "width", "qkv must have shape [tokens, 32], got [3, 30]", [=] {
    call(make({3, 30}), make({2, 1, 4, 8}), numbers(0), numbers(0), make({5, 8}));
  });
  cases.error("paged_store", "heads", "the caches have 2 heads, expected 1", [=] {
    call(make({3, 32}), make({2, 2, 4, 8}), numbers(0), numbers(0), make({5, 8}));
  });
  cases.error("paged_store", "table",
              "cos_sin must be float32 of shape [positions, an even number up to 8], got", [=] {
                call(make({3, 32}), make({2, 1, 4, 8}), numbers(0), numbers(0), make({5, 10}));
              });
  cases.error("paged_store", "positions", "positions must be int64 of shape [3], got float32 [3]",
              [=] {
                call(make({3, 32}), make({2, 1, 4, 8}), make({3}), numbers(0), make({5, 8}));
              });
  cases.error("paged_store", "cache", "the caches must be float32, float16, bfloat16", [=] {
    call(make({3, 32}), make({2, 1, 4, 8}, kInt64), numbers(0), numbers(0), make({5, 8}));
  });
  cases.error("paged_store", "rank", "expected qkv of 2 dimensions, caches of 4", [=] {
    call(make({96}), make({2, 1, 4, 8}), numbers(0), numbers(0), make({5, 8}));
  });
}

}  // namespace tensora::suite
