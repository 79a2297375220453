"""The framework libtorch beside PyTorch in Python: the same shape, dtype, tests and threads, by turns.

usage: python3 bench/torch_llm.py [--tensora PATH] [--shape stories110m] [--dtype float32,bfloat16] [-p 128] [-n 32] [-r 5]

libtorch is what Tensora is compared with, so it must not be slower than PyTorch itself. Two programs in Python are
measured: a plain decoder with a static KV cache, the fastest that eager PyTorch offers, and LlamaForCausalLM where
transformers is installed. Weights are random. Each round runs all of them one after the other; the table has medians
and the ratio of libtorch to the faster of the two programs.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

SHAPES = {  # hidden size, layers, heads, key/value heads, head size, feed-forward size, vocabulary
    "stories15m": (288, 6, 6, 6, 48, 768, 32000),
    "stories110m": (768, 12, 12, 12, 64, 2048, 32000),
    "smollm": (576, 30, 9, 3, 64, 1536, 49152),
    "llama3-1b": (2048, 16, 32, 8, 64, 8192, 128256),
}


class Plain:
    """A LLaMA with a tied head and a static cache."""

    def __init__(self, shape, dtype, context):
        self.hidden, self.layers, self.heads, self.kv_heads, self.size, wide, vocabulary = SHAPES[shape]
        queries, keys = self.heads * self.size, self.kv_heads * self.size
        made = lambda *sizes: torch.randn(sizes, dtype=dtype).mul_(0.02)
        self.embedding = made(vocabulary, self.hidden)
        self.weights = [(made(queries + 2 * keys, self.hidden), made(self.hidden, queries),
                         made(2 * wide, self.hidden), made(self.hidden, wide)) for _ in range(self.layers)]
        self.norm = torch.ones(self.hidden, dtype=dtype)
        self.cache = torch.zeros(self.layers, 2, self.kv_heads, context, self.size, dtype=dtype)
        angles = torch.outer(torch.arange(context), 1e4 ** -(torch.arange(0, self.size, 2) / self.size))
        self.cos = torch.cat([angles.cos()] * 2, 1).to(dtype)
        self.sin = torch.cat([-angles.sin(), angles.sin()], 1).to(dtype)

    def normalised(self, x):
        return F.rms_norm(x, (self.hidden,), self.norm, 1e-5)

    def rotated(self, x, start):
        cos, sin = (t[start:start + x.size(1)] for t in (self.cos, self.sin))
        return x * cos + x.roll(self.size // 2, -1) * sin

    def __call__(self, tokens, start):
        x, count = self.embedding[tokens], len(tokens)
        end = start + count
        for (qkv, out, gate_up, down), (keys, values) in zip(self.weights, self.cache):
            all_heads = F.linear(self.normalised(x), qkv).view(count, -1, self.size).transpose(0, 1)
            q, k, v = all_heads.split([self.heads, self.kv_heads, self.kv_heads])
            keys[:, start:end] = self.rotated(k, start)
            values[:, start:end] = v
            seen = F.scaled_dot_product_attention(
                self.rotated(q, start)[None], keys[None, :, :end], values[None, :, :end],
                is_causal=count > 1, enable_gqa=self.heads != self.kv_heads)
            x = torch.addmm(x, seen[0].transpose(0, 1).reshape(count, -1), out.t())
            gate, up = F.linear(self.normalised(x), gate_up).chunk(2, 1)
            x = torch.addmm(x, F.silu(gate) * up, down.t())
        return F.linear(self.normalised(x[-1:]), self.embedding).float()


class Transformers:
    """LlamaForCausalLM, whose cache grows."""

    def __init__(self, shape, dtype, context):
        from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
        hidden, layers, heads, kv_heads, size, wide, vocabulary = SHAPES[shape]
        torch.set_default_dtype(dtype)
        self.model = LlamaForCausalLM(LlamaConfig(
            hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, head_dim=size,
            num_key_value_heads=kv_heads, intermediate_size=wide, vocab_size=vocabulary,
            max_position_embeddings=context, tie_word_embeddings=True)).eval()
        torch.set_default_dtype(torch.float32)
        self.new_cache, self.cache = DynamicCache, None

    def __call__(self, tokens, start):
        if start == 0:
            self.cache = self.new_cache()
        return self.model(tokens[None], past_key_values=self.cache, logits_to_keep=1).logits[0].float()


def python_speeds(model, prompt, generate):
    """Tokens per second of a prompt, and of decode steps from an empty cache, each waited for."""
    vocabulary_free = torch.randint(0, 1000, (max(prompt, generate),))
    began = time.perf_counter()
    model(vocabulary_free[:prompt], 0)
    middle = time.perf_counter()
    for i in range(generate):
        model(vocabulary_free[i:i + 1], i)
    return prompt / (middle - began), generate / (time.perf_counter() - middle)


def libtorch_speeds(args, dtype):
    cache = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}[dtype]
    words = [args.tensora, "bench", "--synthetic", args.shape, "--type", dtype, "--framework", "libtorch", "--level",
             "eager", "-p", str(args.prompt), "-n", str(args.generate), "-r", "1", "-t", str(args.threads), "--ctk",
             cache, "--device", "cpu", "--no-bandwidth", "-o", "json"]
    tests = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    return [next(t["avg_ts"] for t in tests if (t["n_prompt"] > 0) == is_prompt) for is_prompt in (True, False)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tensora", default="build/bin/tensora")
    parser.add_argument("--shape", default="stories110m", choices=SHAPES)
    parser.add_argument("--dtype", default="float32,bfloat16,float16")
    parser.add_argument("-p", "--prompt", type=int, default=128)
    parser.add_argument("-n", "--generate", type=int, default=32)
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=torch.get_num_threads())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"{args.shape}, PyTorch {torch.__version__}, {args.threads} threads, tokens/s, medians of {args.rounds} rounds")
    print("| dtype | test | PyTorch, plain | transformers | libtorch | ratio |\n|---|---|--:|--:|--:|--:|")
    for dtype in args.dtype.split(","):
        models = {}
        for name, kind in (("plain", Plain), ("transformers", Transformers)):
            try:
                models[name] = kind(args.shape, getattr(torch, dtype), max(args.prompt, args.generate) + 1)
            except ImportError:
                pass
        rounds = []
        with torch.inference_mode():
            for model in models.values():
                python_speeds(model, args.prompt, args.generate)  # not timed
            for _ in range(args.rounds):
                rounds.append({name: python_speeds(model, args.prompt, args.generate) for name, model in models.items()})
                rounds[-1]["libtorch"] = libtorch_speeds(args, dtype)
        for number, test in enumerate((f"pp{args.prompt}", f"tg{args.generate}")):
            medians = {name: statistics.median(r[name][number] for r in rounds) for name in rounds[0]}
            best = max(speed for name, speed in medians.items() if name != "libtorch")
            cells = [f"{medians[name]:,.1f}" if name in medians else "-" for name in ("plain", "transformers", "libtorch")]
            print(f"| {dtype} | {test} | {' | '.join(cells)} | {medians['libtorch'] / best:.2f} |", flush=True)


if __name__ == "__main__":
    main()
