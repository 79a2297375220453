"""Tensora beside llama.cpp on the CPU: the same file, the same tests, the same threads, by turns.

usage: python3 bench/llama_cpp.py MODEL.gguf... [--make SHAPE:TYPE ...] [-p 512,64] [-n 128] [-s 1,2,4] [-t 2]

llama-bench is found on PATH or named by --llama-bench. Where llama-completion lies beside it, both programs first
continue a prompt greedily, and the texts must begin alike. --make writes a file with random weights in a shape
(15m, 124m, 1b) and of a type (f16, q8_0, q4_0, q4_k_m, ...) into --folder and measures it; random weights tell no story, so
there only the speeds are compared. Each round runs one after the other; the table has the best of the rounds, and the
ratio is of those. -s also decodes several sequences at once, each behind 16 tokens, beside llama-batched-bench, which
must lie beside llama-bench.
"""

import argparse
import json
import os
import random
import shutil
import struct
import subprocess
import sys

SHAPES = {  # width, layers, heads, key heads, feed-forward, vocabulary, context
    "15m": (288, 6, 6, 6, 768, 32000, 2048),
    "124m": (768, 12, 12, 12, 2048, 50304, 2048),
    "1b": (2048, 16, 32, 8, 8192, 128256, 8192),
}
U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9
DEPTH = "16"  # tokens of each of several sequences before those that are timed
# GGUF's number of a type, numbers and bytes of a block, and where its float16 scales lie.
TYPES = {
    "f32": (0, 1, 4, ()), "f16": (1, 1, 2, (0,)), "q4_0": (2, 32, 18, (0,)), "q5_0": (6, 32, 22, (0,)),
    "q8_0": (8, 32, 34, (0,)),
    "q4_k": (12, 256, 144, (0, 2)), "q5_k": (13, 256, 176, (0, 2)), "q6_k": (14, 256, 210, (208,)),
}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def random_blocks(kind, count, seed):
    """Bytes of `count` numbers: any bits, but scales below 1/16."""
    _, numbers, size, scales = TYPES[kind]
    blocks = min(count // numbers, 1 << 20)
    data = bytearray(random.Random(seed).randbytes(blocks * size))
    small = bytes((b & 0x80) | (0x1C + b % 16) for b in range(256))
    for at in scales:
        data[at + 1::size] = bytes(data[at + 1::size]).translate(small)
    return (bytes(data) * (count // numbers // blocks + 1))[:count // numbers * size]


def kind_of(name, mix, layers, columns):
    """What a tensor of a mix is: 'q4_0' and 'q4_k_m' spend more on the head and on some layers, as everybody does.

    Rows that are no multiple of 256 numbers get what llama-quantize gives them.
    """
    kind = wanted_kind(name, mix, layers)
    return kind if columns % TYPES[kind][1] == 0 else {"q4_k": "q5_0", "q6_k": "q8_0"}[kind]


def wanted_kind(name, mix, layers):
    if not mix.startswith("q4"):
        return mix
    if name == "token_embd":
        return "q6_k"
    if mix == "q4_k_m" and (name.endswith("attn_v") or name.endswith("ffn_down")):
        i = int(name.split(".")[1])
        if i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2:
            return "q6_k"
    return "q4_k" if mix == "q4_k_m" else mix


def vocabulary_keys(count):
    """A SentencePiece vocabulary: the control tokens, all bytes, and made-up words."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [f"\u2581w{number}" for number in range(count - len(tokens))]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (count - 259)  # unknown, control, byte, normal
    array = lambda kind, data: struct.pack("<IQ", kind, count) + data
    return [("tokenizer.ggml.model", STRING, "llama"),
            ("tokenizer.ggml.tokens", ARRAY, array(STRING, b"".join(map(text, tokens)))),
            ("tokenizer.ggml.scores", ARRAY, array(F32, struct.pack(f"<{count}f", *(-float(i) for i in range(count))))),
            ("tokenizer.ggml.token_type", ARRAY, array(I32, struct.pack(f"<{count}i", *kinds)))]


def write_model(path, shape, mix, with_vocabulary=False):
    width, layers, heads, kv_heads, ffn, vocabulary, context = SHAPES[shape]
    matrices = {"token_embd": (width, vocabulary)}
    vectors = ["output_norm"]
    for i in range(layers):
        kv = width // heads * kv_heads
        matrices |= {f"blk.{i}.{name}": sizes for name, sizes in {
            "attn_q": (width, width), "attn_k": (width, kv), "attn_v": (width, kv), "attn_output": (width, width),
            "ffn_gate": (width, ffn), "ffn_up": (width, ffn), "ffn_down": (ffn, width)}.items()}
        vectors += [f"blk.{i}.attn_norm", f"blk.{i}.ffn_norm"]
    keys = [("general.architecture", STRING, "llama"), ("general.name", STRING, f"random {shape}"),
            ("llama.context_length", U32, context), ("llama.embedding_length", U32, width),
            ("llama.block_count", U32, layers), ("llama.feed_forward_length", U32, ffn),
            ("llama.attention.head_count", U32, heads), ("llama.attention.head_count_kv", U32, kv_heads),
            ("llama.rope.dimension_count", U32, width // heads), ("llama.vocab_size", U32, vocabulary),
            ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5)]
    keys += vocabulary_keys(vocabulary) if with_vocabulary else [("tokenizer.ggml.model", STRING, "no_vocab")]
    tensors = [(name, sizes, kind_of(name, mix, layers, sizes[0])) for name, sizes in matrices.items()]
    tensors += [(name, (width,), "f32") for name in vectors]
    header, at = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)), 0
    for key, kind, value in keys:
        packed = value if kind == ARRAY else text(value) if kind == STRING else struct.pack(
            "<I" if kind == U32 else "<f", value)
        header += text(key) + struct.pack("<I", kind) + packed
    data = []
    for name, sizes, kind in tensors:
        count = sizes[0] * (sizes[1] if len(sizes) > 1 else 1)
        number, numbers, size, _ = TYPES[kind]
        if sizes[0] % numbers:
            sys.exit(f"--make: rows of {sizes[0]} numbers do not fit {kind}'s blocks of {numbers}")
        header += text(name + ".weight") + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, number, at)
        data.append((count, kind))
        at += (count // numbers * size + 31) // 32 * 32
    with open(path, "wb") as file:
        file.write(header + bytes(-len(header) % 32))
        for seed, (count, kind) in enumerate(data):
            part = struct.pack("<f", 1) * count if kind == "f32" else random_blocks(kind, count, seed)
            file.write(part + bytes(-len(part) % 32))


def make(spec, options, vocabulary=False):
    shape, _, mix = spec.partition(":")
    if shape not in SHAPES or mix not in [*TYPES, "q4_k_m"]:
        sys.exit(f"--make: expected SHAPE:TYPE with a shape of {', '.join(SHAPES)} and a type of "
                 f"{', '.join(TYPES)}, q4_k_m, got '{spec}'")
    os.makedirs(options.folder, exist_ok=True)
    path = os.path.join(options.folder, f"random-{shape}-{mix}{'-words' * vocabulary}.gguf")
    if not os.path.exists(path):
        write_model(path + ".part", shape, mix, vocabulary)
        os.replace(path + ".part", path)
    return path


def tests_of(options):
    return ["-p", options.prompts, "-n", options.generated, "-t", str(options.threads), "-r", str(options.repetitions)]


def run_json(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def theirs(path, options):
    rows = run_json([options.llama_bench, "-m", path, "-o", "json", *tests_of(options)])
    return {(f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"): row["avg_ts"] for row in rows}


def ours(path, options):
    rows = run_json([options.tensora, "bench", path, "-o", "json", "--device", "cpu", *tests_of(options)])
    speeds = {(f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"): row["avg_ts"] for row in rows}
    return speeds, rows


def theirs_together(path, options):
    batched = os.path.join(os.path.dirname(os.path.abspath(options.llama_bench)), "llama-batched-bench")
    count = max(int(n) for n in options.sequences.split(","))
    command = [batched, "-m", path, "-npp", DEPTH, "-ntg", options.generated, "-npl", options.sequences, "-t",
               str(options.threads), "-c", str(count * (int(DEPTH) + int(options.generated))), "--no-kv-unified",
               "--output-format", "jsonl"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {f"tg{options.generated} x{row['pl']}": row["speed_tg"] for row in rows}


def ours_together(path, options):
    rows = run_json([options.tensora, "bench", path, "-o", "json", "--device", "cpu", "-p", "0", "-n", options.generated,
                     "-s", options.sequences, "-d", DEPTH, "-t", str(options.threads), "-r", str(options.repetitions)])
    return {f"tg{row['n_gen']} x{row['n_sequences']}": row["avg_ts"] for row in rows}, rows


def greedy(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def texts_agree(path, options):
    """Whether both continue a prompt alike; None where that cannot be told."""
    other = os.path.join(os.path.dirname(os.path.abspath(options.llama_bench)), "llama-completion")
    if not os.path.exists(other) or os.path.basename(path).startswith("random-"):
        return None
    asked = ["-n", "48", "--temp", "0"]
    mine = greedy([options.tensora, "run", path, "-p", options.prompt, *asked, "--quiet", "--device", "cpu"])
    yours = greedy([other, "-m", path, "-p", options.prompt, *asked, "-no-cnv", "--no-display-prompt", "--no-warmup"])
    if mine is None or yours is None:
        return None
    size = min(len(mine), len(yours), options.agreeing)
    return mine[:size] == yours[:size]


def model_arguments(doc):
    """The parser of a program that measures files beside llama.cpp's, which bench/servers.py uses, too."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--make", nargs="*", default=[], metavar="SHAPE:TYPE")
    parser.add_argument("--folder", default="build/bench-models")
    parser.add_argument("--tensora", default="build/bin/tensora")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--json", help="write the figures to a file")
    return parser


def comparable(options, agree, with_vocabulary=False):
    """The files to measure, less those with which `agree` finds different texts, and those."""
    paths = options.models + [make(spec, options, with_vocabulary) for spec in options.make]
    if not paths:
        sys.exit("nothing to measure: expected models or --make")
    wrong = [path for path in paths if agree(path, options) is False]
    for path in wrong:
        print(f"{path}: the greedy texts differ; nothing is timed", file=sys.stderr)
    return [path for path in paths if path not in wrong], wrong


def finish(report, wrong, options):
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    sys.exit(bool(wrong))


def main():
    parser = model_arguments(__doc__)
    parser.add_argument("--llama-bench", default=shutil.which("llama-bench"))
    parser.add_argument("-p", "--prompts", default="512,64")
    parser.add_argument("-n", "--generated", default="128")
    parser.add_argument("-s", "--sequences", default="", help="numbers of sequences at once, such as 1,2,4,8,16")
    parser.add_argument("-r", "--repetitions", type=int, default=2)
    parser.add_argument("--agreeing", type=int, default=80, help="characters of greedy text that must agree")
    options = parser.parse_args()
    if not options.llama_bench:
        sys.exit("llama-bench is not on PATH: name it by --llama-bench")
    report, (paths, wrong) = [], comparable(options, texts_agree)
    print("| model | test | Tensora, tokens/s | llama.cpp | ratio | GB/s | of the memory's speed |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for path in paths:
        best_mine, best_theirs, rows = {}, {}, {}
        for _ in range(options.rounds):
            for other, own in [(theirs, ours)] + [(theirs_together, ours_together)] * bool(options.sequences):
                for test, speed in other(path, options).items():
                    best_theirs[test] = max(speed, best_theirs.get(test, 0))
                speeds, found = own(path, options)
                for (test, speed), row in zip(speeds.items(), found):
                    if speed > best_mine.get(test, 0):
                        best_mine[test], rows[test] = speed, row
        for test, speed in best_mine.items():
            name = os.path.splitext(os.path.basename(path))[0]
            row = {"model": name, "test": test, "tensora": speed, "llama_cpp": best_theirs[test],
                   "ratio": speed / best_theirs[test], "row": rows[test]}
            report.append(row)
            rate, share = rows[test].get("read_gb_per_second") or 0, rows[test].get("percent_of_measured") or 0
            reading = f"{rate:.1f} | {share / 100:.2f}" if test.startswith("tg") else " | "
            print(f"| {name} | {test} | {speed:.1f} | {best_theirs[test]:.1f} | {row['ratio']:.2f} | {reading} |",
                  flush=True)
    finish(report, wrong, options)


if __name__ == "__main__":
    main()
