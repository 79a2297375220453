#!/usr/bin/env python3
"""Writes goldens/models.txt: what transformers' and torchvision's models of small shapes compute."""
import pathlib
import sys

import torch
import torchvision
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM
from transformers import MistralConfig, MistralForCausalLM, Qwen3Config, Qwen3ForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from filled import Goldens, fill, filled, unit  # noqa: E402

g = Goldens()


def tokens(name, below, *sizes):
    numbers = unit(name, sizes[0] * sizes[1])
    return torch.from_numpy(((numbers + 1) / 2 * below).astype("int64")).reshape(sizes)


def language(name, model):
    fill(model).eval()
    x = tokens("x", model.config.vocab_size, 2, 9)
    logits = model(x).logits
    g.put(f"{name}.logits", logits)
    loss = torch.nn.functional.cross_entropy(model(x[:, :-1]).logits.flatten(0, 1), x[:, 1:].flatten())
    loss.backward()
    g.put(f"{name}.loss", loss)
    for key, parameter in model.named_parameters():
        g.digest(f"{name}.grad.{key}", parameter.grad)


def llama_like(config, model, **options):
    return model(config(vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                        num_key_value_heads=2, max_position_embeddings=32, attn_implementation="eager", **options))


language("gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=23, n_positions=16, n_embd=16, n_layer=2, n_head=4)))
scaling = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8, "rope_theta": 100.0}
language("llama", llama_like(LlamaConfig, LlamaForCausalLM, rope_parameters=scaling, tie_word_embeddings=False))
language("mistral", llama_like(MistralConfig, MistralForCausalLM, sliding_window=4))
language("qwen2", llama_like(Qwen2Config, Qwen2ForCausalLM, tie_word_embeddings=True))
language("qwen3", llama_like(Qwen3Config, Qwen3ForCausalLM, head_dim=8, tie_word_embeddings=False))

for name, model in {"resnet18": torchvision.models.resnet18(num_classes=5),
                    "resnet50": torchvision.models.resnet50(num_classes=5)}.items():
    fill(model).eval()
    g.put(f"{name}.eval", model(filled("x", 2, 3, 32, 32)))
    model.train()
    output = model(filled("x", 2, 3, 64, 64))
    g.put(f"{name}.train", output)
    (output * filled("loss0", 2, 5)).sum().backward()
    for key in ("conv1.weight", "layer1.0.bn1.weight", "layer3.0.downsample.0.weight", "fc.weight"):
        g.digest(f"{name}.grad.{key}", model.get_parameter(key).grad)
    g.digest(f"{name}.running", model.layer2[0].bn1.running_var)
vit = fill(torchvision.models.VisionTransformer(16, 8, 2, 2, 16, 32, num_classes=5)).eval()
output = vit(filled("x", 2, 3, 16, 16))
g.put("vit.output", output)
g.gradients("vit", [output], vit)
g.write(pathlib.Path(__file__).resolve().parent / "goldens/models.txt")
