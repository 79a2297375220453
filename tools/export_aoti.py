#!/usr/bin/env python3
"""Compiles the decode step of a model to an AOTInductor package (.pt2) for --level aoti:FILE.

Needs PyTorch, of the version that Tensora was compiled for, and a C++ compiler. The model is
described by a file that Tensora's framework libtorch writes:

    tensora run model.gguf --framework libtorch -n 1 --framework-option describe=model.json
    python3 tools/export_aoti.py model.json -o model.pt2
    tensora run model.gguf --framework libtorch --level aoti:model.pt2

The package has no weights. What the compiled function takes and returns is written in
tensora/torch/package.h.
"""
import argparse
import json
import sys

import torch
import torch.nn.functional as F

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class DecodeStep(torch.nn.Module):
    """One token of each sequence: what tensora/torch/decoder.cpp computes, as a PyTorch program."""

    def __init__(self, about, sequences):
        super().__init__()
        self.about = about
        self.sequences = sequences
        self.dtype = DTYPES[about["dtype"]]
        self.cache_dtype = DTYPES[about["cache_dtype"]]
        # Inductor may write constants of one value into the code, so these stand-ins have many.
        for name, tensor in about["tensors"].items():
            self.register_buffer(name, torch.randn(tensor["shape"], dtype=DTYPES[tensor["dtype"]]))

    def norm(self, x, name, dtype=None):
        weight = self.get_buffer(name)
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.about["norm_eps"])
        return (wide * scale * weight).to(dtype or self.dtype)

    def linear(self, x, name):
        parts = [F.linear(x, self.get_buffer(part)) for part in self.parts(name)]
        y = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        bias = self.about["tensors"].get(name + "_bias")
        return y + self.get_buffer(name + "_bias") if bias else y

    def parts(self, name):
        return [f"{name}_{i}" for i in range(3) if f"{name}_{i}" in self.about["tensors"]]

    def rotate(self, x, prefix, positions):
        turned = self.about["rotary_dim"]
        cos = self.get_buffer(prefix + "rope_cos")[positions].unsqueeze(1)
        sin = self.get_buffer(prefix + "rope_sin")[positions].unsqueeze(1)
        part = x[..., :turned]
        if self.about["rope_in_halves"]:
            swapped = torch.roll(part, turned // 2, -1)
        else:
            swapped = part.unflatten(2, (turned // 2, 2)).flip(-1).flatten(2)
        result = part * cos + swapped * sin
        return torch.cat([result, x[..., turned:]], -1) if turned < x.size(-1) else result

    def mask(self, length, positions, local):
        """Which keys a query sees; None: all of them."""
        window = self.about["window"] if local else 0
        if self.sequences == 1 and not window:
            return None  # the keys end with those of the one sequence
        places = torch.arange(length)
        seen = places <= positions[:, None]
        if window:
            seen = seen & (places > positions[:, None] - window)
        return seen[:, None, None, :]

    def attend(self, queries, keys, values, mask):
        about = self.about
        keys, values = keys.to(self.dtype), values.to(self.dtype)
        cap, grouped = about["attention_softcap"], about["heads"] != about["kv_heads"]
        if not cap:
            return F.scaled_dot_product_attention(queries, keys, values, mask, enable_gqa=grouped,
                                                  scale=about["attention_scale"])
        times = about["heads"] // about["kv_heads"]
        keys, values = (x.repeat_interleave(times, 1) for x in (keys, values))
        scores = (queries @ keys.transpose(-1, -2)).float() * (about["attention_scale"] / cap)
        scores = torch.tanh(scores) * cap
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, -1).to(self.dtype) @ values

    def attention(self, x, number, positions, keys, values):
        about = self.about
        heads, kv_heads, size = about["heads"], about["kv_heads"], about["head_dim"]
        name = f"layer_{number}_"
        local = about["local_layers"][number]
        prefix = "local_" if local and "local_rope_cos" in about["tensors"] else ""
        qkv = self.linear(x, name + "qkv").view(self.sequences, heads + 2 * kv_heads, size)
        q, k = qkv[:, :heads], qkv[:, heads:heads + kv_heads]
        if name + "q_norm" in about["tensors"]:
            q, k = self.norm(q, name + "q_norm"), self.norm(k, name + "k_norm")
        q, k = (self.rotate(each, prefix, positions) for each in (q, k))
        rows = torch.arange(self.sequences)
        for cache, new in ((keys, k), (values, qkv[:, heads + kv_heads:])):
            cache.transpose(1, 2).index_put_((rows, positions), new.to(self.cache_dtype))
        seen = self.attend(q.unsqueeze(2), keys, values, self.mask(keys.size(2), positions, local))
        return self.linear(seen.reshape(self.sequences, heads * size), name + "output")

    def feed_forward(self, x, number):
        name = f"layer_{number}_"
        gate_up = self.linear(x, name + "gate_up")
        gate, up = gate_up.chunk(2, 1)
        gate = F.silu(gate) if self.about["activation"] == "silu" else F.gelu(gate, approximate="tanh")
        return self.linear(gate * up, name + "down")

    def forward(self, tokens, positions, caches):
        x = self.embedding_0[tokens] * self.about["embedding_scale"]
        for number in range(self.about["layers"]):
            name = f"layer_{number}_"
            for norm, post, branch in (
                    ("attention_norm", "post_attention_norm", lambda h: self.attention(
                        h, number, positions, caches[2 * number], caches[2 * number + 1])),
                    ("feed_forward_norm", "post_feed_forward_norm",
                     lambda h: self.feed_forward(h, number))):
                y = branch(self.norm(x, name + norm))
                x = x + (self.norm(y, name + post) if name + post in self.about["tensors"] else y)
        head = "head" if "head_0" in self.about["tensors"] else "embedding"
        logits = self.linear(self.norm(x, "final_norm"), head).float()
        cap = self.about["final_softcap"]
        return torch.tanh(logits / cap) * cap if cap else logits


def export(about, sequences, path):
    if about["format"] != "tensora-decode-1" or about["device"] != "cpu":
        raise ValueError("expected a description of the format tensora-decode-1 for the CPU, got "
                         f"{about['format']} for {about['device']}")
    if about["torch"].split("+")[0] != torch.__version__.split("+")[0]:
        raise ValueError(f"Tensora was compiled for PyTorch {about['torch']}, this is {torch.__version__}")
    if about["block_size"] < 32 or sequences < 1:
        raise ValueError("expected blocks of 32 tokens or more and one sequence or more, got "
                         f"{about['block_size']} and {sequences}")
    step = DecodeStep(about, sequences)
    block = torch.zeros(sequences + 1, about["kv_heads"], about["block_size"], about["head_dim"],
                        dtype=step.cache_dtype)
    caches = [block.clone()[1:, :, :16] for _ in range(2 * about["layers"])]
    length = torch.export.Dim("length", min=2, max=about["block_size"] - 1)
    shapes = {"tokens": None, "positions": None, "caches": [{2: length} for _ in caches]}
    tokens = torch.zeros(sequences, dtype=torch.int64)
    with torch.no_grad():
        program = torch.export.export(step, (tokens, tokens + 15, caches), dynamic_shapes=shapes,
                                      strict=False)
        torch._inductor.aoti_compile_and_package(program, package_path=path, inductor_configs={
            "aot_inductor.package_constants_in_so": False,
            "aot_inductor.metadata": {"tensora_description": json.dumps(about),
                                      "tensora_sequences": str(sequences)}})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("description", help="The file that --framework-option describe=FILE wrote")
    parser.add_argument("-o", "--output", required=True, help="The package, a name that ends in .pt2")
    parser.add_argument("-s", "--sequences", type=int, default=1,
                        help="Sequences of a decode step (batch size). Default 1")
    args = parser.parse_args()
    try:
        with open(args.description, encoding="utf-8") as file:
            about = json.load(file)
        if not args.output.endswith(".pt2"):
            raise ValueError(f"expected an output name that ends in .pt2, got '{args.output}'")
        export(about, args.sequences, args.output)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"export_aoti: {error!r}" if isinstance(error, KeyError) else f"export_aoti: {error}")


if __name__ == "__main__":
    main()
