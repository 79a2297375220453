#!/usr/bin/env python3
"""Generation beside the tuned rows: types × sequences × depths × models, with the share of the floor.

Runs `tensora bench --synthetic` for all combinations that fit the device's memory and prints a table per
model and type: tokens/s, and in brackets the share of the floor in percent. The floor of a step is the longer
of two times: that of reading the weights, keys and values once, at the measured speed of memory (--bandwidth,
GB/s), and that of the products at the measured speed of bfloat16 products (--tflops). Below the tables it
names the rows that are slower than a neighbour with more work (more sequences at the same depth should give
more tokens per second, a smaller depth should as well), and those below half of their floor.

    python3 bench/neighbourhood.py build/bin/tensora --device cuda --out neighbourhood.json
    python3 bench/neighbourhood.py build/bin/tensora --device cpu --models stories15m --sequences 1,2,4,8
"""

import argparse
import json
import subprocess
import sys

TYPES = "float16,bfloat16,q8_0,q4_k_m,q6_k,mxfp4"
MODELS = "llama3-1b,llama3-8b,mixtral-8x7b"


def numbers(text):
    return [int(part) for part in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tensora", help="the program")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--sequences", type=numbers, default=numbers("1,2,4,8,16,32,64,128,256"))
    parser.add_argument("--depths", type=numbers, default=numbers("0,1024,4096,16384,65536"))
    parser.add_argument("--tokens", type=int, default=16, help="generated per sequence and repetition")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--cache-gb", type=float, default=64, help="skip rows whose keys and values take more")
    parser.add_argument("--bandwidth", type=float, default=4300, help="GB/s of the device's memory, measured")
    parser.add_argument("--tflops", type=float, default=790, help="of bfloat16 products, measured")
    parser.add_argument("--out", help="all rows as JSON")
    return parser.parse_args()


def run(options, model, kind, depth, sequences):
    """The rows of one process: all numbers of sequences at one depth."""
    command = [options.tensora, "bench", "--synthetic", model, "--type", kind, "--device", options.device,
               "-p", "0", "-n", str(options.tokens), "-d", str(depth),
               "-s", ",".join(str(count) for count in sequences), "-r", str(options.repetitions),
               "--no-bandwidth", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{model} {kind} @ {depth}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return []
    return json.loads(done.stdout)


def cache_bytes_per_token(model, options):
    """Of one sequence, from a row at a depth of one: what reading grows by."""
    rows = run(options, model, "q8_0", 0, [1]), run(options, model, "q8_0", 4096, [1])
    if not rows[0] or not rows[1]:
        return None
    near, far = (row[0]["read_gb_per_second"] * row[0]["avg_ns"] / options.tokens for row in rows)
    return (far - near) / 4096


def share_of_floor(row, options):
    """The time of a step's floor over the time it took."""
    step = row["avg_ns"] * 1e-9 / row["n_gen"]
    read = row["read_gb_per_second"] * step / options.bandwidth
    active = row["model_n_params"] * row.get("active_share", 1)
    multiply = 2 * active * row["n_sequences"] / (options.tflops * 1e12)
    return max(read, multiply) / step


def findings(table, options):
    """Rows that are slower than a neighbour with more work, and rows far from their floor."""
    lines = []
    for (sequences, depth), row in sorted(table.items()):
        speed = row["avg_ts"]
        fewer = [table[key] for key in table if key[0] < sequences and key[1] == depth]
        if any(speed < 0.97 * other["avg_ts"] for other in fewer):
            lines.append(f"x{sequences} @ d{depth}: slower than fewer sequences ({speed:.0f} tokens/s)")
        deeper = [table[key] for key in table if key[0] == sequences and key[1] > depth]
        if any(speed < 0.97 * other["avg_ts"] for other in deeper):
            lines.append(f"x{sequences} @ d{depth}: slower than a greater depth ({speed:.0f} tokens/s)")
        if share_of_floor(row, options) < 0.5:
            lines.append(f"x{sequences} @ d{depth}: {share_of_floor(row, options):.0%} of its floor")
    return lines


def show(model, kind, table, options):
    print(f"\n{model} {kind}\n")
    print("| sequences | " + " | ".join(f"d{depth}" for depth in options.depths) + " |")
    print("|--:|" + "--:|" * len(options.depths))
    for sequences in options.sequences:
        cells = []
        for depth in options.depths:
            row = table.get((sequences, depth))
            cells.append(f"{row['avg_ts']:,.0f} ({share_of_floor(row, options):.0%})" if row else "")
        print(f"| {sequences} | " + " | ".join(cells) + " |")
    for line in findings(table, options):
        print(f"- {line}")
    sys.stdout.flush()


def main():
    options = arguments()
    everything = []
    for model in options.models.split(","):
        per_token = cache_bytes_per_token(model, options)
        if per_token is None:
            continue
        for kind in options.types.split(","):
            table = {}
            for depth in options.depths:
                fit = [count for count in options.sequences
                       if count * (depth + options.tokens) * per_token < options.cache_gb * 1e9]
                for row in run(options, model, kind, depth, fit) if fit else []:
                    table[row["n_sequences"], depth] = row
                    everything.append(row)
            show(model, kind, table, options)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(everything, file, indent=1)


if __name__ == "__main__":
    main()
