#include "tensora/train/language_config.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tensora/base/check.h"
#include "tensora/core/device.h"
#include "tensora/train/config_json.h"

namespace tensora::train {
namespace {

struct Preset {
  const char* name;
  LanguageConfig config;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"tiny",
       {.model = "llama",
        .vocab_size = 1024,
        .context = 256,
        .width = 128,
        .layers = 6,
        .heads = 4,
        .kv_heads = 2,
        .hidden = 352,
        .steps = 2000,
        .batch = 16,
        .warmup = 50,
        .lr = 3e-3}},
      {"small",
       {.model = "llama",
        .vocab_size = 8192,
        .context = 512,
        .width = 512,
        .layers = 8,
        .heads = 8,
        .kv_heads = 4,
        .hidden = 1408,
        .steps = 10000,
        .batch = 32,
        .warmup = 200,
        .lr = 1e-3}},
      {"gpt2",
       {.model = "gpt2",
        .vocab_size = 50257,
        .context = 1024,
        .width = 768,
        .layers = 12,
        .heads = 12,
        .kv_heads = 12,
        .hidden = 3072,
        .steps = 20000,
        .batch = 32,
        .warmup = 700,
        .lr = 6e-4}},
  };
  return all;
}

template <class T>
void default_to(T& value, const T& preset) {
  if (value == T{}) value = preset;
}

// Of a setting that may be 0.
template <class T>
void default_if_unset(T& value, T preset) {
  if (value == T{-1}) value = preset;
}

constexpr int64_t kMostAtOnce = int64_t{1} << 24;  // what no memory holds is refused at once

void check_rates(const LanguageConfig& c) {
  check(c.lr > 0 && std::isfinite(c.lr), "lr must be positive, got ", c.lr);
  check(c.beta2 >= 0 && c.beta2 < 1, "beta2 must be in [0, 1), got ", c.beta2);
  for (const auto& [name, value] : {std::pair{"min_lr", c.min_lr},
                                    {"weight_decay", c.weight_decay},
                                    {"clip_norm", c.clip_norm},
                                    {"temperature", c.temperature}})
    check(value >= 0 && std::isfinite(value), name, " must not be negative, got ", value);
}

void check_range(const LanguageConfig& c) {
  const auto at_least = [](const char* name, int64_t value, int64_t least) {
    check(value >= least, name, " must be at least ", least, ", got ", value);
  };
  at_least("steps", c.steps, 1);
  for (const auto& [name, value, least] : {std::tuple{"batch", c.batch, 1},
                                           {"grad_accum", c.grad_accum, 1},
                                           {"context", c.context, 2}})
    check(value >= least && value <= kMostAtOnce, name, " must be from ", least, " to ",
          kMostAtOnce, ", got ", value);
  at_least("layers", c.layers, 1);
  at_least("heads", c.heads, 1);
  at_least("kv_heads", c.kv_heads, 1);
  at_least("hidden", c.hidden, 1);
  for (const auto& [name, value] : {std::pair{"warmup", c.warmup},
                                    {"validate_every", c.validate_every},
                                    {"validate_batches", c.validate_batches},
                                    {"sample_every", c.sample_every},
                                    {"sample_tokens", c.sample_tokens},
                                    {"checkpoint_every", c.checkpoint_every},
                                    {"keep_checkpoints", c.keep_checkpoints}})
    at_least(name, value, 0);
  check(c.width >= 1 && c.width % c.heads == 0, "heads must divide the width ", c.width, ", got ",
        c.heads);
  check(c.heads % c.kv_heads == 0, "kv_heads must divide the heads ", c.heads, ", got ",
        c.kv_heads);
  check(c.validation >= 0 && c.validation < 1, "validation must be in [0, 1), got ", c.validation);
  check(c.dropout >= 0 && c.dropout < 1, "dropout must be in [0, 1), got ", c.dropout);
  check_rates(c);
  check(c.model == "llama" || c.model == "gpt2", "model must be llama or gpt2, got '", c.model,
        "'");
  check(c.dropout == 0 || c.model == "gpt2", "dropout must be 0 for a llama, which has none, got ",
        c.dropout);
  check(c.amp == "none" || c.amp == "bf16" || c.amp == "f16",
        "amp must be none, bf16 or f16, got '", c.amp, "'");
  const Device device(c.device);  // throws if there can be no such device
  check(c.amp != "f16" || !device.is_cpu(), "amp f16 needs a GPU; on the CPU there is bf16");
}

}  // namespace

std::vector<std::string> language_presets() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

LanguageConfig LanguageConfig::resolved() const {
  LanguageConfig out = *this;
  const auto found = std::find_if(presets().begin(), presets().end(),
                                  [&](const Preset& one) { return preset == one.name; });
  check(found != presets().end(), "there is no preset '", preset,
        "'; there are tiny, small and gpt2");
  const LanguageConfig& from = found->config;
  default_to(out.model, from.model);
  default_to(out.vocab_size, from.vocab_size);
  default_to(out.context, from.context);
  const bool same_shape = out.width == 0 && out.heads == 0;
  default_to(out.width, from.width);
  default_to(out.layers, from.layers);
  default_to(out.heads, from.heads);
  // Another width has another hidden size, and other heads other groups.
  default_to(out.kv_heads, same_shape ? from.kv_heads : out.heads);
  default_to(out.hidden, same_shape            ? from.hidden
                         : out.model == "gpt2" ? 4 * out.width
                                               : (out.width * 8 / 3 + 31) / 32 * 32);
  default_to(out.steps, from.steps);
  default_to(out.batch, from.batch);
  default_if_unset(out.warmup, std::min(from.warmup, out.steps / 10));
  default_to(out.lr, from.lr);
  default_if_unset(out.min_lr, out.lr / 10);
  default_if_unset(out.validate_every, std::max<int64_t>(1, out.steps / 20));
  default_if_unset(out.sample_every, std::max<int64_t>(1, out.steps / 4));
  default_if_unset(out.checkpoint_every, std::max<int64_t>(1, out.steps / 10));
  check_range(out);
  return out;
}

std::string LanguageConfig::to_json() const { return config_to_json(*this); }

LanguageConfig LanguageConfig::from_json(std::string_view json) {
  return config_from_json(LanguageConfig(), json, "the configuration");
}

}  // namespace tensora::train
