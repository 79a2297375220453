#include "tensora/llm/hugging_face/tensor_names.h"

#include <charconv>
#include <set>

#include "tensora/base/check.h"

namespace tensora::llm {
namespace {

struct Pair {
  std::string_view hugging_face, gguf;
  std::string_view only = "";  // architectures, separated by blanks; empty: all
};

// Outside of the layers, with their endings.
constexpr Pair kWhole[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
};
// Within "model.layers.N." and "blk.N.", without ".weight" or ".bias".
constexpr Pair kOfLayer[] = {
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up", "llama qwen2 qwen3 gemma gemma2 gemma3"},
    {"mlp.gate_up_proj", "ffn_up", "phi3"},
    {"mlp.down_proj", "ffn_down"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "post_attention_norm", "gemma2 gemma3"},
    {"pre_feedforward_layernorm", "ffn_norm", "gemma2 gemma3"},
    {"post_feedforward_layernorm", "post_ffw_norm", "gemma2 gemma3"},
    {"post_attention_layernorm", "ffn_norm", "llama qwen2 qwen3 qwen3moe gemma phi3"},
    {"block_sparse_moe.gate", "ffn_gate_inp", "llama"},
    {"mlp.gate", "ffn_gate_inp", "qwen3moe"},
};
// Within "PREFIX.E.", of one expert.
struct Expert {
  std::string_view prefix, hugging_face, gguf, only;
};
constexpr Expert kOfExpert[] = {
    {"block_sparse_moe.experts.", "w1", "ffn_gate_exps", "llama"},
    {"block_sparse_moe.experts.", "w2", "ffn_down_exps", "llama"},
    {"block_sparse_moe.experts.", "w3", "ffn_up_exps", "llama"},
    {"mlp.experts.", "gate_proj", "ffn_gate_exps", "qwen3moe"},
    {"mlp.experts.", "down_proj", "ffn_down_exps", "qwen3moe"},
    {"mlp.experts.", "up_proj", "ffn_up_exps", "qwen3moe"},
};

bool is_for(std::string_view only, std::string_view architecture) {
  if (only.empty()) return true;
  const std::string padded = concat(" ", only, " ");
  return padded.find(concat(" ", architecture, " ")) != std::string::npos;
}

// Takes "12." off the front.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<size_t>(end - text.data());
  if (error != std::errc() || number < 0 || digits >= text.size() || text[digits] != '.') return {};
  text.remove_prefix(digits + 1);
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Takes ".weight" or ".bias" off the end.
std::string_view take_ending(std::string_view& text) {
  for (std::string_view ending : {".weight", ".bias"}) {
    if (!text.ends_with(ending)) continue;
    text.remove_suffix(ending.size());
    return ending;
  }
  return {};
}

}  // namespace

std::optional<GgufName> gguf_name(std::string_view architecture, std::string_view text) {
  for (const Pair& pair : kWhole)
    if (pair.hugging_face == text) return GgufName{std::string(pair.gguf)};
  if (!take(text, "model.layers.")) return {};
  const std::optional<int64_t> layer = take_number(text);
  const std::string_view ending = take_ending(text);
  if (!layer || ending.empty()) return {};
  for (const Pair& pair : kOfLayer)
    if (pair.hugging_face == text && is_for(pair.only, architecture))
      return GgufName{concat("blk.", *layer, ".", pair.gguf, ending)};
  for (const Expert& row : kOfExpert) {
    std::string_view rest = text;
    if (!is_for(row.only, architecture) || !take(rest, row.prefix)) continue;
    const std::optional<int64_t> expert = take_number(rest);
    if (expert && rest == row.hugging_face)
      return GgufName{concat("blk.", *layer, ".", row.gguf, ending), *expert};
  }
  return {};
}

std::optional<std::string> hugging_face_name(std::string_view architecture, std::string_view text,
                                             int64_t expert) {
  for (const Pair& pair : kWhole)
    if (pair.gguf == text) return std::string(pair.hugging_face);
  if (!take(text, "blk.")) return {};
  const std::optional<int64_t> layer = take_number(text);
  const std::string_view ending = take_ending(text);
  if (!layer || ending.empty()) return {};
  for (const Pair& pair : kOfLayer)
    if (expert < 0 && pair.gguf == text && is_for(pair.only, architecture))
      return concat("model.layers.", *layer, ".", pair.hugging_face, ending);
  for (const Expert& row : kOfExpert)
    if (expert >= 0 && row.gguf == text && is_for(row.only, architecture))
      return concat("model.layers.", *layer, ".", row.prefix, expert, ".", row.hugging_face,
                    ending);
  return {};
}

void check_biases(std::span<const TensorInfo> tensors, const BiasUse& biases) {
  constexpr std::string_view kWeight = ".weight";
  std::set<std::string_view> names;
  for (const TensorInfo& info : tensors) names.insert(info.name);
  for (const TensorInfo& info : tensors) {
    std::string_view name = info.name;
    const bool is_projection = info.sizes.size() == 2 && name.starts_with("blk.") &&
                               name.ends_with(kWeight) && name.find("ffn_gate_inp") == name.npos;
    if (!is_projection) continue;
    name.remove_suffix(kWeight.size());
    const bool expected = name.ends_with(".attn_output")     ? biases.output
                          : name.find(".attn_") != name.npos ? biases.qkv
                                                             : biases.feed_forward;
    const bool found = names.contains(concat(name, ".bias"));
    check(found || !expected, "there is no '", name,
          ".bias', which the model has by its config.json ('attention_bias', 'mlp_bias')");
    check(expected || !found, "there is a '", name,
          ".bias', which the model does not have by its config.json ('attention_bias', "
          "'mlp_bias')");
  }
}

}  // namespace tensora::llm
