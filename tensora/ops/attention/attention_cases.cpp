#include <cmath>
#include <limits>

#include "tensora/core/philox.h"
#include "tensora/ops/attention/attention.h"
#include "tests/suite/cases.h"

namespace tensora::suite {
namespace {

constexpr uint64_t kSeed = 0x1234'5678'9abc'def0;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Options {
  bool causal = false;
  double dropout = 0;
  std::optional<double> scale = {};
  bool gqa = false;
};

// What the probability number i of the whole matrix is multiplied with.
double dropout_factor(const Options& options, int64_t i) {
  if (options.dropout == 0) return 1;
  const PhiloxWords words = philox(kSeed, uint64_t(i / 128 * 32 + i % 32));
  const bool kept = words.word[i % 128 / 32] < (1 - options.dropout) * 0x1p32;
  return kept ? 1 / (1 - options.dropout) : 0;
}

/// One head: rows of q against rows of k; `bias` gives what is added to a score.
void attend(const double* q, const double* k, const double* v, double* out, int64_t rows,
            int64_t cols, int64_t size, int64_t width, double scale,
            const std::function<double(int64_t, int64_t)>& bias,
            const std::function<double(int64_t, int64_t)>& factor) {
  std::vector<double> p(static_cast<size_t>(cols));
  for (int64_t i = 0; i < rows; ++i) {
    double most = -kInfinity, total = 0;
    for (int64_t j = 0; j < cols; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < size; ++d) dot += q[i * size + d] * k[j * size + d];
      p[size_t(j)] = dot * scale + bias(i, j);
      most = std::max(most, p[size_t(j)]);
    }
    for (double& score : p) total += score = most == -kInfinity ? 0 : std::exp(score - most);
    for (int64_t d = 0; d < width; ++d) {
      double sum = 0;
      for (int64_t j = 0; j < cols; ++j) sum += p[size_t(j)] * factor(i, j) * v[j * width + d];
      out[i * width + d] = total == 0 ? 0 : sum / total;
    }
  }
}

// Operands with leading dims of one number; key and value may have fewer heads.
Array naive(Arrays x, const Options& options) {
  const Array &q = x[0], &k = x[1], &v = x[2];
  const int dims = q.sizes.size();
  Shape sizes = q.sizes;
  sizes[dims - 1] = v.sizes[dims - 1];
  Array out(sizes);
  const int64_t rows = q.sizes[dims - 2], cols = k.sizes[dims - 2], size = q.sizes[dims - 1],
                width = v.sizes[dims - 1];
  const int64_t matrices = rows == 0 || width == 0 ? 0 : out.numel() / rows / width;
  const int64_t heads = dims > 2 ? q.sizes[dims - 3] : 1, groups = dims > 2 ? k.sizes[dims - 3] : 1;
  Shape scores = sizes;
  scores[dims - 1] = cols;
  const Array mask = x.size() > 3 ? x[3].broadcast_to(scores) : Array();
  for (int64_t m = 0; m < matrices; ++m) {
    const int64_t pair = m / heads * groups + m % heads / (heads / groups);
    const int64_t first = m * rows * cols;
    attend(
        q.values.data() + m * rows * size, k.values.data() + pair * cols * size,
        v.values.data() + pair * cols * width, out.values.data() + m * rows * width, rows, cols,
        size, width, options.scale.value_or(1 / std::sqrt(double(size))),
        [&](int64_t i, int64_t j) {
          if (options.causal && j > i) return -kInfinity;
          return x.size() > 3 ? mask[first + i * cols + j] : 0;
        },
        [&](int64_t i, int64_t j) { return dropout_factor(options, first + i * cols + j); });
  }
  return out;
}

void add(Cases& cases, std::string name, std::vector<Input> inputs, Options options = {}) {
  const bool has_mask = inputs.size() > 3;
  cases.add({.op = "attention",
             .name = std::move(name),
             .inputs = std::move(inputs),
             .run =
                 [options, has_mask](In x) {
                   return one(scaled_dot_product_attention(
                       x[0], x[1], x[2], has_mask ? x[3] : Tensor(), options.dropout,
                       options.causal, options.scale, options.gqa));
                 },
             .reference = [options](Arrays x) { return one(naive(x, options)); },
             .tolerance = 4,
             .seed = kSeed});
}

void add_shapes(Cases& cases) {
  add(cases, "4 dims, other value size", {{{2, 3, 5, 4}}, {{2, 3, 7, 4}}, {{2, 3, 7, 6}}});
  add(cases, "2 dims", {{{5, 3}}, {{4, 3}}, {{4, 3}}});
  add(cases, "3 dims, scale", {{{3, 2, 8}}, {{3, 9, 8}}, {{3, 9, 1}}}, {.scale = -0.3});
  add(cases, "5 dims", {{{2, 2, 2, 3, 2}}, {{2, 2, 2, 4, 2}}, {{2, 2, 2, 4, 3}}});
  add(cases, "grouped heads", {{{2, 6, 3, 4}}, {{2, 2, 5, 4}}, {{2, 2, 5, 4}}}, {.gqa = true});
  add(cases, "causal, more keys", {{{1, 2, 3, 4}}, {{1, 2, 6, 4}}, {{1, 2, 6, 4}}},
      {.causal = true});
  add(cases, "causal, fewer keys", {{{1, 2, 6, 4}}, {{1, 2, 3, 4}}, {{1, 2, 3, 4}}},
      {.causal = true});
  add(cases, "no keys", {{{1, 2, 3, 4}}, {{1, 2, 0, 4}}, {{1, 2, 0, 5}}});
  add(cases, "no queries", {{{1, 2, 0, 4}}, {{1, 2, 3, 4}}, {{1, 2, 3, 4}}});
  add(cases, "no batch", {{{0, 2, 3, 4}}, {{0, 2, 3, 4}}, {{0, 2, 3, 4}}});
  add(cases, "several blocks", {{{1, 1, 100, 20}}, {{1, 1, 200, 20}}, {{1, 1, 200, 20}}});
  add(cases, "several blocks, causal, groups",
      {{{1, 2, 210, 8}}, {{1, 1, 210, 8}}, {{1, 1, 210, 8}}}, {.causal = true, .gqa = true});
  add(cases, "one query, many keys", {{{2, 4, 1, 16}}, {{2, 2, 1300, 16}}, {{2, 2, 1300, 16}}},
      {.gqa = true});
  add(cases, "tensor core sizes, causal", {{{1, 2, 130, 64}}, {{1, 2, 130, 64}}, {{1, 2, 130, 64}}},
      {.causal = true});
  add(cases, "tensor core sizes", {{{1, 2, 70, 128}}, {{1, 1, 200, 128}}, {{1, 1, 200, 128}}},
      {.gqa = true});
  add(cases, "whole tiles", {{{1, 2, 64, 32}}, {{1, 2, 96, 32}}, {{1, 2, 96, 64}}});
  add(cases, "parts of tiles", {{{1, 1, 33, 33}}, {{1, 1, 205, 33}}, {{1, 1, 205, 17}}});
  add(cases, "parts of tiles, causal", {{{1, 2, 99, 40}}, {{1, 1, 97, 40}}, {{1, 1, 97, 96}}},
      {.causal = true, .gqa = true});
  add(cases, "wide heads", {{{1, 1, 5, 300}}, {{1, 1, 70, 300}}, {{1, 1, 70, 270}}});
}

// Queries, keys and values are slices of one tensor [B, L, 3, H, D], and so are their gradients.
void add_one_product(Cases& cases) {
  for (const Shape& sizes : {Shape{2, 5, 3, 2, 4}, Shape{1, 70, 3, 2, 64}})
    cases.add(
        {.op = "attention",
         .name = concat("slices of one product ", sizes),
         .inputs = {{sizes}},
         .run =
             [](In x) {
               const std::vector<Tensor> parts = unbind(x[0], 2);
               const auto heads = [&](size_t i) { return transpose(parts[i], 1, 2); };
               return one(scaled_dot_product_attention(heads(0), heads(1), heads(2), {}, 0, true));
             },
         .reference =
             [sizes](Arrays x) {
               const Shape each = {sizes[0], sizes[3], sizes[1], sizes[4]};
               ArrayList parts(3, Array(each));
               for (int64_t i = 0; i < 3; ++i)
                 Array::each(each, [&](const Shape& at) {
                   parts[static_cast<size_t>(i)].at(at) = x[0].at({at[0], at[2], i, at[1], at[3]});
                 });
               return one(naive(parts, {.causal = true}));
             },
         .tolerance = 4});
}

void add_masks(Cases& cases) {
  const double hidden = -kInfinity;
  add(cases, "float mask", {{{2, 2, 3, 4}}, {{2, 2, 5, 4}}, {{2, 2, 5, 4}}, {{3, 5}}});
  add(cases, "float mask per head", {{{2, 2, 3, 4}}, {{2, 2, 5, 4}}, {{2, 2, 5, 4}}, {{2, 1, 5}}});
  add(cases, "float mask per batch",
      {{{2, 2, 3, 4}}, {{2, 2, 5, 4}}, {{2, 2, 5, 4}}, {{2, 1, 3, 1}}});
  add(cases, "a hidden row and column",
      {{{1, 1, 2, 3}},
       {{1, 1, 3, 3}},
       {{1, 1, 3, 3}},
       {.sizes = {2, 3}, .dtype = kFloat32, .values = {hidden, hidden, hidden, 0, hidden, 1}}});
  add(cases, "long mask", {{{1, 2, 99, 4}}, {{1, 1, 220, 4}}, {{1, 1, 220, 4}}, {{1, 1, 99, 220}}},
      {.gqa = true});
  cases.add(
      {.op = "attention",
       .name = "bool mask",
       .inputs = {{{1, 2, 3, 4}},
                  {{1, 2, 5, 4}},
                  {{1, 2, 5, 4}},
                  {.sizes = {2, 3, 5}, .dtype = kBool, .values = {1, 0, 1, 1, 0, 0, 0, 0, 0, 0,
                                                                  1, 1, 1, 1, 1, 0, 0, 1, 0, 1,
                                                                  1, 1, 0, 0, 0, 0, 0, 0, 0, 1}}},
       .run = [](In x) { return one(scaled_dot_product_attention(x[0], x[1], x[2], x[3])); },
       .reference =
           [](Arrays x) {
             ArrayList added(x.begin(), x.end());
             for (double& v : added[3].values) v = v != 0 ? 0 : -kInfinity;
             return one(naive(added, {}));
           },
       .tolerance = 4});
  add(cases, "dropout", {{{2, 3, 5, 4}}, {{2, 3, 70, 4}}, {{2, 3, 70, 4}}}, {.dropout = 0.3});
  add(cases, "dropout, causal, long", {{{1, 1, 120, 4}}, {{1, 1, 220, 4}}, {{1, 1, 220, 4}}},
      {.causal = true, .dropout = 0.5});
}

void add_packed(Cases& cases, bool causal) {
  // Three sequences of 3, 0 and 2 queries against 2, 4 and 3 keys.
  const std::vector<int64_t> q = {0, 3, 3, 5}, k = {0, 2, 6, 9};
  const auto lengths = [](const std::vector<int64_t>& starts) {
    return Input{.sizes = {int64_t(starts.size())},
                 .dtype = kInt32,
                 .values = std::vector<double>(starts.begin(), starts.end())};
  };
  cases.add({.op = "attention",
             .name = causal ? "packed, causal" : "packed",
             .inputs = {{{5, 4, 6}}, {{9, 2, 6}}, {{9, 2, 3}}, lengths(q), lengths(k)},
             .run =
                 [causal](In x) {
                   return one(varlen_attention(x[0], x[1], x[2], x[3], x[4], 3, 4, 0, causal));
                 },
             .reference =
                 [q, k, causal](Arrays x) {
                   Array out({5, 4, 3});
                   for (int64_t n = 0; n < 3; ++n)
                     for (int64_t h = 0; h < 4; ++h) {
                       const auto rows = [&](const Array& from, int64_t first, int64_t last,
                                             int64_t head) {
                         std::vector<double> result;
                         for (int64_t i = first; i < last; ++i)
                           for (int64_t d = 0; d < from.sizes[2]; ++d)
                             result.push_back(from.at({i, head, d}));
                         return result;
                       };
                       const auto query = rows(x[0], q[n], q[n + 1], h),
                                  key = rows(x[1], k[n], k[n + 1], h / 2),
                                  value = rows(x[2], k[n], k[n + 1], h / 2);
                       std::vector<double> result(size_t(q[n + 1] - q[n]) * 3);
                       attend(
                           query.data(), key.data(), value.data(), result.data(), q[n + 1] - q[n],
                           k[n + 1] - k[n], 6, 3, 1 / std::sqrt(6.),
                           [&](int64_t i, int64_t j) { return causal && j > i ? -kInfinity : 0; },
                           [](int64_t, int64_t) { return 1.; });
                       for (size_t i = 0; i < result.size(); ++i)
                         out.at({q[n] + int64_t(i) / 3, h, int64_t(i) % 3}) = result[i];
                     }
                   return one(out);
                 },
             .tolerance = 4,
             .opt_out = {{Mode::jit, "the lengths of another run would not fit"}}});
}

void add_errors(Cases& cases) {
  const auto error = [&](std::string name, std::string message, std::function<void()> run) {
    cases.error("attention", std::move(name), std::move(message), std::move(run));
  };
  const auto sdpa = [](const Shape& q, const Shape& k, const Shape& v, const Tensor& mask = {},
                       Options options = {}) {
    scaled_dot_product_attention(rand(q), rand(k), rand(v), mask, options.dropout, options.causal,
                                 options.scale, options.gqa);
  };
  error("one dim", "at least 2 dimensions", [=] { sdpa({3}, {2, 3}, {2, 3}); });
  error("head sizes", "one head size, got 3 and 4", [=] { sdpa({2, 3}, {2, 4}, {2, 3}); });
  error("lengths", "one length, got 4 and 5", [=] { sdpa({2, 3}, {4, 3}, {5, 3}); });
  error("heads without enable_gqa", "cannot be broadcast", [=] {
    sdpa({6, 2, 3}, {3, 2, 3}, {3, 2, 3});
  });
  error("heads that do not divide", "must divide", [=] {
    sdpa({6, 2, 3}, {4, 2, 3}, {4, 2, 3}, {}, {.gqa = true});
  });
  error("mask and causal", "together with is_causal", [=] {
    sdpa({2, 3}, {2, 3}, {2, 3}, ones({2, 2}, {.dtype = kBool}), {.causal = true});
  });
  error("mask shape", "does not broadcast", [=] {
    sdpa({2, 3}, {2, 3}, {2, 3}, ones({3, 2}, {.dtype = kBool}));
  });
  error("mask dtype", "bool, float32 or of the query's dtype", [=] {
    sdpa({2, 3}, {2, 3}, {2, 3}, ones({2, 2}, {.dtype = kInt32}));
  });
  error("dropout", "between 0 and 1", [=] { sdpa({2, 3}, {2, 3}, {2, 3}, {}, {.dropout = 1.1}); });
  error("dtypes", "one floating-point dtype", [] {
    scaled_dot_product_attention(rand({2, 3}), rand({2, 3}, {.dtype = kFloat64}), rand({2, 3}));
  });
  error("packed lengths", "must be two vectors of one length", [] {
    varlen_attention(rand({2, 1, 3}), rand({2, 1, 3}), rand({2, 1, 3}), tensor({0, 2}),
                     tensor({0, 1, 2}), 2, 2);
  });
}

}  // namespace

void attention_cases(Cases& cases) {
  add_shapes(cases);
  add_one_product(cases);
  add_masks(cases);
  for (bool causal : {false, true}) add_packed(cases, causal);
  add_errors(cases);
}

}  // namespace tensora::suite
