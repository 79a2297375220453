#include "tensora/ops/sampling/sample_tokens.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <span>

#include "tensora/dispatch/op.h"
#include "tensora/ops.h"
#include "tensora/ops/sampling/sample_tokens_op.h"
#include "tensora/ops/sampling/token_keys.h"

namespace tensora {

constexpr auto describe(std::type_identity<SampleTokensAttrs>) { return fields(); }

namespace {

using A = SampleTokensAttrs;

void infer_sample_tokens(Infer& infer, const A&) {
  const Tensor& logits = infer[0];
  infer.check(logits.dim() == 2 && logits.dtype() == kFloat32,
              "logits must be a float32 matrix, got ", logits.dtype(), " ", logits.sizes());
  const int64_t rows = logits.size(0);
  infer.check(logits.size(1) > 0 && logits.size(1) <= kMostTokens,
              "expected from 1 to 2^23 tokens, got ", logits.size(1));
  const auto check_row = [&](size_t at, std::string_view what, DType dtype, int64_t columns) {
    infer.check(infer[at].dtype() == dtype && infer[at].sizes() == Shape{rows, columns}, what,
                " must be ", dtype, " of shape ", Shape{rows, columns}, ", got ", infer[at].dtype(),
                " ", infer[at].sizes());
  };
  check_row(1, "numbers", kFloat64, A::kNumbers);
  check_row(2, "integers", kInt64, A::kIntegers);
  for (size_t i = 0; i < 3; ++i)
    infer.check(infer[i].is_contiguous(), "all inputs must be contiguous");
  infer.output({rows}, kInt64);
}

// The k highest, highest first; empty where the logits are not usable.
std::vector<unsigned long long> highest_keys(std::span<const float> logits, int64_t k) {
  std::vector<unsigned long long> keys;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] <= std::numeric_limits<float>::max())) return {};
    if (logits[i] >= std::numeric_limits<float>::lowest())
      keys.push_back(token_key(logits[i], static_cast<unsigned>(i)));
  }
  k = std::min(std::clamp<int64_t>(k, 1, kMostTopK), static_cast<int64_t>(keys.size()));
  std::partial_sort(keys.begin(), keys.begin() + k, keys.end(), std::greater<>());
  keys.resize(static_cast<size_t>(k));
  return keys;
}

int64_t chosen(std::span<const float> logits, const double* numbers, const int64_t* integers) {
  const double temperature = numbers[A::kTemperature], top_p = numbers[A::kTopP];
  auto keys = highest_keys(logits, temperature == 0 ? 1 : integers[A::kTopK]);
  if (keys.empty()) return -1;
  const float most = logit_of_key(keys[0]);
  const auto weight = [&](unsigned long long key) {
    return token_weight(logit_of_key(key) - most);
  };
  if (top_p < 1) {
    unsigned long long sum = 0, mass = 0;
    for (const auto key : keys) sum += weight(key);
    const unsigned long long target = kept_mass(top_p, sum);
    const auto last = std::find_if(keys.begin(), keys.end(),
                                   [&](auto key) { return (mass += weight(key)) >= target; });
    if (last != keys.end()) keys.erase(last + 1, keys.end());
  }
  if (numbers[A::kMinP] > 0)
    std::erase_if(keys, [&](auto key) { return weight(key) < least_weight(numbers[A::kMinP]); });
  unsigned long long sum = 0, mass = 0;
  const auto final_weight = [&](unsigned long long key) {
    return token_weight(colder(logit_of_key(key) - most, 1 / temperature));
  };
  if (keys.size() > 1)
    for (const auto key : keys) sum += final_weight(key);
  else
    return token_of_key(keys[0]);
  const unsigned long long point =
      choice_point(choice_word(philox(static_cast<uint64_t>(integers[A::kSeed]),
                                      static_cast<uint64_t>(integers[A::kDraw]))),
                   sum);
  for (const auto key : keys)
    if ((mass += final_weight(key)) > point) return token_of_key(key);
  return token_of_key(keys[0]);
}

Tensors sample_tokens_definition(Args in, const A&) {
  const Tensor logits = in[0]->cpu(), numbers = in[1]->cpu(), integers = in[2]->cpu();
  const int64_t rows = logits.size(0), vocabulary = logits.size(1);
  const Tensor result = empty({rows}, {.dtype = kInt64});
  for (int64_t r = 0; r < rows; ++r)
    result.data_ptr<int64_t>()[r] =
        chosen({logits.data_ptr<float>() + r * vocabulary, static_cast<size_t>(vocabulary)},
               numbers.data_ptr<double>() + r * A::kNumbers,
               integers.data_ptr<int64_t>() + r * A::kIntegers);
  return Tensors{to(result, in[0]->device())};
}

}  // namespace

constinit OpDef<SampleTokensAttrs> sample_tokens_op = define(Op<SampleTokensAttrs>{
    .name = "sample_tokens",
    .inputs = {"logits", "numbers", "integers"},
    .infer = infer_sample_tokens,
    .reference = sample_tokens_definition,
    .gradient = Gradient::not_differentiable,
    .accepts = set_of(kFloat32) | set_of(kFloat64) | set_of(kInt64),
});

void register_sample_tokens(OpRegistry& registry) { registry.add(sample_tokens_op); }

Tensor sample_tokens(const Tensor& logits, const Tensor& numbers, const Tensor& integers) {
  return apply(sample_tokens_op, {contiguous(logits), contiguous(numbers), contiguous(integers)});
}

}  // namespace tensora
