#!/usr/bin/env python3
"""Writes small random models of every architecture, as Hugging Face's transformers saves them, with
the logits that transformers computes in float32: what tests/llm/hugging_face_test.cpp compares with.

    make_models.py FOLDER [--scale N] [--only NAME...]

tests/llm/goldens/models was made with --scale 1; larger scales widen the models. Ends with status 77
where transformers is not installed.
"""
import argparse
import pathlib
import shutil
import sys

try:
    import torch
    import transformers
    from safetensors.torch import save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LENGTH = 48  # of the text; longer than the windows and the original contexts below


def common(scale, **changes):
    sizes = dict(vocab_size=40, hidden_size=16 * scale, intermediate_size=24 * scale,
                 num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 max_position_embeddings=64, initializer_range=0.3, rms_norm_eps=1e-5,
                 tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return {**sizes, **changes}


def rope(kind, **numbers):
    return dict(rope_type=kind, rope_theta=100.0, **numbers)


def configs(scale):
    t = transformers
    half = 2 * scale  # pairs of a head of hidden_size / 4 numbers
    yield "llama", t.LlamaConfig(**common(scale))
    yield "llama-tied-bias", t.LlamaConfig(**common(scale, tie_word_embeddings=True,
                                                    attention_bias=True))
    yield "llama-linear", t.LlamaConfig(**common(scale, rope_parameters=rope("linear", factor=4.0)))
    yield "llama-llama3", t.LlamaConfig(**common(scale, head_dim=8 * scale, rope_parameters={**rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=8192), "rope_theta": 500000.0}))
    yield "llama-yarn", t.LlamaConfig(**common(scale, head_dim=8 * scale, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=16)))
    yield "llama-yarn-scales", t.LlamaConfig(**common(scale, head_dim=8 * scale, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.8, mscale_all_dim=0.3,
        truncate=False, beta_fast=16.0)))
    yield "llama-dynamic", t.LlamaConfig(**common(  # the text is longer than the context
        scale, max_position_embeddings=LENGTH - 16, rope_parameters=rope("dynamic", factor=2.0)))
    yield "llama-biases", t.LlamaConfig(**common(scale, attention_bias=True, mlp_bias=True))
    yield "mistral", t.MistralConfig(**common(scale, sliding_window=7))
    yield "mixtral", t.MixtralConfig(**common(scale, num_local_experts=4, num_experts_per_tok=2,
                                              sliding_window=None))
    yield "qwen2", t.Qwen2Config(**common(scale))
    yield "qwen2-window", t.Qwen2Config(**common(scale, use_sliding_window=True, sliding_window=7,
                                                 max_window_layers=1))
    yield "qwen3", t.Qwen3Config(**common(scale, head_dim=8 * scale))
    yield "qwen3-bias", t.Qwen3Config(**common(scale, head_dim=8 * scale, attention_bias=True))
    yield "qwen3moe", t.Qwen3MoeConfig(**common(
        scale, head_dim=8 * scale, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
        moe_intermediate_size=12 * scale, mlp_only_layers=[], decoder_sparse_step=1))
    yield "qwen3moe-raw", t.Qwen3MoeConfig(**common(  # the experts' weights do not sum to 1
        scale, head_dim=8 * scale, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False,
        moe_intermediate_size=12 * scale, mlp_only_layers=[], decoder_sparse_step=1,
        use_sliding_window=True, sliding_window=7))
    yield "gemma", t.GemmaConfig(**common(scale, head_dim=8 * scale, tie_word_embeddings=True))
    yield "gemma2", t.Gemma2Config(**common(
        scale, head_dim=8 * scale, query_pre_attn_scalar=8 * scale, sliding_window=7,
        attn_logit_softcapping=5.0, final_logit_softcapping=3.0, tie_word_embeddings=True))
    yield "gemma2-plain", t.Gemma2Config(**common(
        scale, head_dim=8 * scale, query_pre_attn_scalar=24, sliding_window=7,
        attn_logit_softcapping=None, final_logit_softcapping=None, tie_word_embeddings=True,
        layer_types=["full_attention", "sliding_attention"]))
    yield "gemma3", t.Gemma3TextConfig(**common(
        scale, head_dim=8 * scale, query_pre_attn_scalar=11, sliding_window=7,
        num_hidden_layers=7, intermediate_size=8 * scale, hidden_size=8 * scale,
        tie_word_embeddings=True))
    yield "gemma3-linear", t.Gemma3TextConfig(**common(
        scale, head_dim=8 * scale, query_pre_attn_scalar=8 * scale, sliding_window=7,
        final_logit_softcapping=3.0, tie_word_embeddings=True,
        layer_types=["full_attention", "sliding_attention"],
        rope_parameters={"full_attention": rope("linear", factor=8.0),
                         "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}))
    phi = dict(num_key_value_heads=4, sliding_window=None)
    yield "phi3", t.Phi3Config(**common(scale, **phi))
    yield "phi3-partial", t.Phi3Config(**common(scale, **phi, rope_parameters=rope(
        "default", partial_rotary_factor=0.5)))
    for name, original in (("phi3-long", LENGTH - 16), ("phi3-short", LENGTH)):
        yield name, t.Phi3Config(**common(
            scale, **phi, original_max_position_embeddings=original,
            rope_parameters=rope(
                "longrope", short_factor=[1.0 + 0.25 * i for i in range(half)],
                long_factor=[2.0 + 0.5 * i for i in range(half)],
                original_max_position_embeddings=original)))


def write(folder, name, config):
    torch.manual_seed(sum(map(ord, name)))
    torch.set_default_dtype(torch.float32)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "norm" in key or key.endswith("bias"):  # else they are all 1 or 0, and prove nothing
                parameter.add_(torch.randn_like(parameter) * 0.2)
            parameter.copy_(parameter.bfloat16())  # the file holds half the bytes, and loses nothing
        tokens = torch.randint(0, config.vocab_size, (1, LENGTH))
        logits = model(tokens, use_cache=False).logits[0]
    shutil.rmtree(folder / name, ignore_errors=True)
    model.bfloat16().save_pretrained(folder / name)
    (folder / name / "generation_config.json").unlink(missing_ok=True)
    save_file({"tokens": tokens[0].contiguous(), "logits": logits.float().contiguous()},
              folder / name / "expected.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    for name, config in configs(arguments.scale):
        if not arguments.only or name in arguments.only:
            write(arguments.folder, name, config)


if __name__ == "__main__":
    main()
