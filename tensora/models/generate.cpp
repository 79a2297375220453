#include "tensora/models/generate.h"

#include <limits>

#include "tensora/autograd/grad_mode.h"
#include "tensora/base/check.h"
#include "tensora/core/random.h"
#include "tensora/ops.h"

namespace tensora::models {

namespace {

void check_options(const GenerateOptions& options) {
  check(options.temperature >= 0, "generate: temperature must be at least 0, got ",
        options.temperature);
  check(options.top_k >= 0, "generate: top_k must be at least 0, got ", options.top_k);
  check(options.top_p > 0 && options.top_p <= 1,
        "generate: top_p must be above 0 and at most 1, got ", options.top_p);
}

/// The likeliest tokens whose probabilities reach `top_p`; the first one always stays.
Tensor nucleus(const Tensor& probabilities, double top_p) {
  const auto [sorted, order] = probabilities.sort(-1, true);
  const Tensor before = sorted.cumsum(-1) - sorted;
  const Tensor kept = sorted.masked_fill(before >= top_p, 0);
  return zeros_like(probabilities).scatter(-1, order, kept);
}

}  // namespace

Tensor sample(const Tensor& logits, const GenerateOptions& options) {
  check_options(options);
  check(logits.dim() == 2 && logits.size(1) > 0,
        "sample: expected logits of shape [batch, vocabulary], got ", logits.sizes());
  if (options.temperature == 0) return logits.argmax(-1);
  Tensor scores = logits.to(kFloat32) / options.temperature;
  if (options.top_k > 0 && options.top_k < scores.size(1)) {
    const Tensor least =
        std::get<0>(scores.topk(options.top_k, -1)).narrow(-1, options.top_k - 1, 1);
    scores = scores.masked_fill(scores < least, -std::numeric_limits<double>::infinity());
  }
  Tensor probabilities = softmax(scores, -1);
  if (options.top_p < 1) probabilities = nucleus(probabilities, options.top_p);
  return multinomial(probabilities, 1).squeeze(1);
}

Tensor generate(const Tensor& prompt, const std::function<Tensor(const Tensor&)>& next,
                const GenerateOptions& options) {
  check_options(options);
  check(prompt.dim() == 2 && prompt.size(1) > 0 && !prompt.is_floating_point(),
        "generate: expected a prompt of at least one token, of shape [batch, tokens], got ",
        prompt.dtype(), " ", prompt.sizes());
  check(options.max_new_tokens >= 0, "generate: max_new_tokens must be at least 0, got ",
        options.max_new_tokens);
  const no_grad silent;
  Generator seeded(options.seed.value_or(0));
  const GeneratorScope drawing(options.seed ? seeded : current_generator());
  const Tensor stops = tensor(options.stop_tokens, {.dtype = kInt64}).to(prompt.device());
  Tensor done;
  TensorList pieces = {prompt.to(kInt64)};
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    Tensor token = sample(next(pieces.back()), options);
    if (!options.stop_tokens.empty()) {
      if (done.defined())
        token = token.masked_fill(done, static_cast<double>(options.stop_tokens.front()));
      const Tensor ends = (token.unsqueeze(1) == stops).any(1);
      done = done.defined() ? logical_or(done, ends) : ends;
    }
    pieces.push_back(token.unsqueeze(1));
    if (options.on_tokens && !options.on_tokens(token)) break;
    if (done.defined() && done.all().item<bool>()) break;
  }
  return cat(pieces, 1);
}

}  // namespace tensora::models
