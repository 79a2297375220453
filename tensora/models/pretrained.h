#pragma once

#include "tensora/models/gpt2.h"
#include "tensora/models/llama.h"

namespace tensora::models {

/// Fills a model with the tensors of a Hugging Face file (`io::load_safetensors`, or a `.bin` of
/// PyTorch), under the names of its *ForCausalLM class or of the model without its head. GPT-2's
/// matrices are turned. Everything is checked before the first write: an error lists all missing
/// and unexpected names and all wrong shapes.
void load_pretrained(GPT2& model, const StateDict& state);
void load_pretrained(LLaMA& model, const StateDict& state);
/// Any other model (ResNet, ViT), whose names are torchvision's; counters of batches may be
/// missing, as in old files.
void load_pretrained(nn::Module& model, const StateDict& state);

/// The tensors of a model as Hugging Face's files have them; what `load_pretrained` takes.
StateDict pretrained_state_dict(const GPT2& model);
StateDict pretrained_state_dict(const LLaMA& model);

}  // namespace tensora::models
