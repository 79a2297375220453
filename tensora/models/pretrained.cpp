#include "tensora/models/pretrained.h"

#include <algorithm>
#include <array>

#include "tensora/base/check.h"
#include "tensora/ops.h"

namespace tensora::models {

namespace {

/// Hugging Face stores these as in × out.
bool is_turned(std::string_view name) {
  constexpr std::array<std::string_view, 3> ends = {".c_attn.weight", ".c_proj.weight",
                                                    ".c_fc.weight"};
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return name.ends_with(end); });
}

/// Masks that old files carry as buffers.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

Tensor turned(const Tensor& matrix) { return matrix.dim() == 2 ? matrix.t() : matrix; }

/// A head's weight beside a tied embedding, which it must equal in shape.
void check_tied(std::string_view model, const Tensor& head, const Tensor* embedding) {
  check(!embedding || head.sizes() == embedding->sizes(), model, ": the head's weight has shape ",
        head.sizes(), ", the embedding it is tied to ", embedding ? embedding->sizes() : Shape{});
}

}  // namespace

void load_pretrained(GPT2& model, const StateDict& state) {
  StateDict named;
  const Tensor* head = state.find("lm_head.weight");
  for (const auto& [name, tensor] : state) {
    if (is_mask(name) || name == "lm_head.weight") continue;
    const std::string full = name.starts_with("transformer.") ? name : "transformer." + name;
    named.insert(full, is_turned(full) ? turned(tensor) : tensor);
  }
  if (head) check_tied("GPT2", *head, named.find("transformer.wte.weight"));
  model.load_state_dict(named);
}

void load_pretrained(LLaMA& model, const StateDict& state) {
  StateDict named;
  for (const auto& [name, tensor] : state) {
    if (name.ends_with("rotary_emb.inv_freq")) continue;
    const bool head = name == "lm_head.weight";
    if (head && !model.lm_head) continue;
    named.insert(head || name.starts_with("model.") ? name : "model." + name, tensor);
  }
  if (const Tensor* head = state.find("lm_head.weight"); head && !model.lm_head)
    check_tied("LLaMA", *head, named.find("model.embed_tokens.weight"));
  model.load_state_dict(named);
}

void load_pretrained(nn::Module& model, const StateDict& state) { model.load_state_dict(state); }

StateDict pretrained_state_dict(const GPT2& model) {
  StateDict result;
  for (const auto& [name, tensor] : model.state_dict())
    result.insert(name, is_turned(name) ? turned(tensor).contiguous() : tensor);
  return result;
}

StateDict pretrained_state_dict(const LLaMA& model) { return model.state_dict(); }

}  // namespace tensora::models
