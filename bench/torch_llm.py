"""The framework libtorch beside PyTorch in Python: the same shape, dtype, tests and threads, by turns.

usage: python3 bench/torch_llm.py [--tensora PATH] [--shape stories110m] [--dtype float32,bfloat16] [-p 128] [-n 32]
                                  [-s 1,8] [-r 5]

libtorch is what Tensora is compared with, so it must not be slower than PyTorch itself. Two programs in Python are
measured: a plain decoder with a static KV cache, the fastest that eager PyTorch offers, and LlamaForCausalLM where
transformers is installed. Weights are random. int8 is a scale per row; PyTorch multiplies it by _weight_int8pack_mm.
Each round runs all programs one after the other; the table has medians and the ratio of libtorch to the faster of the
two programs. --processor-time counts the time that the processors worked instead of the time that passed: with -t 1
the figures of a busy machine are then nearly those of a quiet one.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

SHAPES = {  # hidden size, layers, heads, key/value heads, head size, feed-forward size, vocabulary
    "stories260k": (64, 5, 8, 4, 8, 172, 512),
    "stories15m": (288, 6, 6, 6, 48, 768, 32000),
    "stories110m": (768, 12, 12, 12, 64, 2048, 32000),
    "smollm": (576, 30, 9, 3, 64, 1536, 49152),
    "llama3-1b": (2048, 16, 32, 8, 64, 8192, 128256),
}


class Int8:
    """A matrix with a scale per row."""

    def __init__(self, matrix):
        self.scales = (matrix.float().abs().amax(1) / 127).to(matrix.dtype)
        self.levels = (matrix.float() / self.scales.float()[:, None]).round().clamp(-127, 127).to(torch.int8)

    def rows(self, tokens):
        return self.levels[tokens].to(self.scales.dtype) * self.scales[tokens][..., None]


def product(x, matrix, residual=None):
    if isinstance(matrix, Int8):
        y = torch._weight_int8pack_mm(x, matrix.levels, matrix.scales)
        return y if residual is None else residual + y
    return F.linear(x, matrix) if residual is None else torch.addmm(residual, x, matrix.t())


class Plain:
    """A LLaMA with a tied head and a static cache."""

    def __init__(self, shape, dtype, context, sequences):
        self.hidden, self.layers, self.heads, self.kv_heads, self.size, wide, vocabulary = SHAPES[shape]
        queries, keys = self.heads * self.size, self.kv_heads * self.size
        plain = torch.bfloat16 if dtype == torch.int8 else dtype
        kept = Int8 if dtype == torch.int8 else lambda matrix: matrix
        made = lambda *sizes: kept(torch.randn(sizes, dtype=plain).mul_(0.02))
        self.embedding = made(vocabulary, self.hidden)
        self.weights = [(made(queries + 2 * keys, self.hidden), made(self.hidden, queries),
                         made(2 * wide, self.hidden), made(self.hidden, wide)) for _ in range(self.layers)]
        self.norm = torch.ones(self.hidden, dtype=plain)
        self.cache = torch.zeros(self.layers, 2, sequences, self.kv_heads, context, self.size, dtype=plain)
        angles = torch.outer(torch.arange(context), 1e4 ** -(torch.arange(0, self.size, 2) / self.size))
        self.cos = torch.cat([angles.cos()] * 2, 1).to(plain)
        self.sin = torch.cat([-angles.sin(), angles.sin()], 1).to(plain)

    def normalised(self, x):
        return F.rms_norm(x, (self.hidden,), self.norm, 1e-5)

    def rotated(self, x, start):
        cos, sin = (t[start:start + x.size(2)] for t in (self.cos, self.sin))
        return x * cos + x.roll(self.size // 2, -1) * sin

    def __call__(self, tokens, start):
        """The logits behind the last token of each sequence; tokens: [sequences, count]."""
        sequences, count = tokens.shape
        x = self.embedding.rows(tokens) if isinstance(self.embedding, Int8) else self.embedding[tokens]
        x = x.view(sequences * count, self.hidden)
        end = start + count
        for (qkv, out, gate_up, down), (keys, values) in zip(self.weights, self.cache):
            all_heads = product(self.normalised(x), qkv).view(sequences, count, -1, self.size).transpose(1, 2)
            q, k, v = all_heads.split([self.heads, self.kv_heads, self.kv_heads], 1)
            keys[:, :, start:end] = self.rotated(k, start)
            values[:, :, start:end] = v
            seen = F.scaled_dot_product_attention(
                self.rotated(q, start), keys[:, :, :end], values[:, :, :end],
                is_causal=count > 1, enable_gqa=self.heads != self.kv_heads)
            x = product(seen.transpose(1, 2).reshape(sequences * count, -1), out, x)
            gate, up = product(self.normalised(x), gate_up).chunk(2, 1)
            x = product(F.silu(gate) * up, down, x)
        last = x.view(sequences, count, -1)[:, -1]
        return product(self.normalised(last), self.embedding).float()


class Transformers:
    """LlamaForCausalLM, whose cache grows."""

    def __init__(self, shape, dtype, context, sequences):
        from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
        if dtype == torch.int8:
            raise ImportError("transformers has no int8 weights of its own")
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
        return self.model(tokens, past_key_values=self.cache, logits_to_keep=1).logits[:, 0].float()


def python_speeds(model, prompt, generate, sequences, now):
    """Tokens per second of a prompt, and of decode steps from an empty cache, each waited for."""
    tokens = torch.randint(0, 500, (sequences, max(prompt, generate)))
    began = now()
    model(tokens[:, :prompt], 0)
    middle = now()
    for i in range(generate):
        model(tokens[:, i:i + 1], i)
    return sequences * prompt / (middle - began), sequences * generate / (now() - middle)


def libtorch_speeds(args, dtype, sequences):
    cache = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "bf16"}[dtype]
    model = [args.model, "--quantize", dtype] if args.model else ["--synthetic", args.shape, "--type", dtype]
    if dtype == "int8":
        model += ["--framework-option", "dtype=bfloat16"]
    words = [args.tensora, "bench", *model, "--framework", "libtorch:eager", "-p", str(args.prompt), "-n",
             str(args.generate), "-s", str(sequences), "-b", str(sequences * args.prompt), "-r", "1", "-t",
             str(args.threads), "--ctk", cache, "--device", "cpu", "--no-bandwidth", "-o", "json"]
    done = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    results = [test["results"][0] for test in done["comparisons"][0]["tests"]]
    return [1e3 / one["processor_ms_per_token"] if args.processor_time else one["median_ts"] for one in results]


def compare(args, dtype, sequences):
    models = {}
    for name, kind in (("plain", Plain), ("transformers", Transformers)):
        try:
            models[name] = kind(args.shape, getattr(torch, dtype), max(args.prompt, args.generate) + 1, sequences)
        except ImportError:
            pass
    rounds, now = [], time.process_time if args.processor_time else time.perf_counter
    with torch.inference_mode():
        for model in models.values():
            python_speeds(model, args.prompt, args.generate, sequences, now)  # not timed
        for _ in range(args.rounds):
            rounds.append({name: python_speeds(model, args.prompt, args.generate, sequences, now)
                           for name, model in models.items()})
            rounds[-1]["libtorch"] = libtorch_speeds(args, dtype, sequences)
    times = f" x{sequences}" if sequences > 1 else ""
    for number, test in enumerate((f"pp{args.prompt}{times}", f"tg{args.generate}{times}")):
        medians = {name: statistics.median(r[name][number] for r in rounds) for name in rounds[0]}
        best = max(speed for name, speed in medians.items() if name != "libtorch")
        cells = [f"{medians[name]:,.1f}" if name in medians else "-" for name in ("plain", "transformers", "libtorch")]
        print(f"| {dtype} | {test} | {' | '.join(cells)} | {medians['libtorch'] / best:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tensora", default="build/bin/tensora")
    parser.add_argument("--shape", default="stories110m", choices=SHAPES)
    parser.add_argument("--model", help="A file of this shape, for libtorch instead of random weights")
    parser.add_argument("--dtype", default="float32,bfloat16,float16")
    parser.add_argument("-p", "--prompt", type=int, default=128)
    parser.add_argument("-n", "--generate", type=int, default=32)
    parser.add_argument("-s", "--sequences", default="1")
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--processor-time", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"{args.shape}, PyTorch {torch.__version__}, {args.threads} threads, tokens/s, medians of {args.rounds} rounds")
    print("| dtype | test | PyTorch, plain | transformers | libtorch | ratio |\n|---|---|--:|--:|--:|--:|")
    for dtype in args.dtype.split(","):
        for sequences in args.sequences.split(","):
            compare(args, dtype, int(sequences))


if __name__ == "__main__":
    main()
