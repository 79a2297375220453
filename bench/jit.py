#!/usr/bin/env python3
"""`./dev bench jit`: compiled functions beside eager execution and torch.compile, from one run.

A row counts only if our compiled result equals our eager one, and both PyTorch's, within the rounding of the
dtype. The training steps are rows of bench/train.py, whose programs run here with and without `compile`.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TRAINING = {"cpu": ("mlp_b64", "gpt_mini_b8"), "cuda": ("gpt2_b32", "resnet50_b256", "llama1b_b4")}


# ---- PyTorch's side ---------------------------------------------------------------------------

def peer_rows(torch, device):
    F, large = torch.nn.functional, device != "cpu"
    side, tokens, images = (8192, 65536, 384) if large else (2048, 4096, 24)  # as in bench/jit.cpp

    def numbers(*sizes, number=0):
        multiples = torch.arange(math.prod(sizes), dtype=torch.float64, device=device)
        multiples *= 0.6180339887498949 + 0.0625 * number
        return ((multiples - multiples.floor() - 0.5) * 3.4).float().reshape(sizes)

    def chain(x, o, blocks):
        y = x
        for i in range(blocks):
            y = y * o + (0.25 + 0.25 * i)
            y = (y.tanh() if i == 3 else y.relu()) * 0.5 - o
        return y

    rows = {}
    for dtype, suffix in ((torch.float32, ""), (torch.bfloat16, "_bf16")):
        for blocks in (1, 4):
            name = f"chain{5 * blocks}{suffix}"
            x = numbers(side, side).to(dtype)
            operands = {"row": numbers(side, number=1), "column": numbers(side, 1, number=1),
                        "transposed": numbers(side, side, number=1)}
            for kind, o in operands.items():
                o = o.to(dtype)
                o = o.t() if kind == "transposed" else o
                rows[f"{name}_{kind}"] = (lambda x, o, blocks=blocks: chain(x, o, blocks), (x, o), None)

    residual, weight, bias = numbers(tokens, 768, number=1), numbers(768, number=2), numbers(768, number=3)
    mask, up = torch.ones(256, 256, device=device).triu(1).bool(), numbers(side, side, number=1)
    blocks = {"residual_norm": (lambda x: F.layer_norm(x + residual, (768,), weight, bias), (tokens, 768)),
              "masked_softmax": (lambda x: (x * 0.125).masked_fill(mask, -math.inf).softmax(-1), (images, 256, 256)),
              "swiglu": (lambda x: F.silu(x) * up, (side, side))}
    for name, (function, sizes) in blocks.items():
        rows[name] = (function, (numbers(*sizes),), None)
        rows[name + "_backward"] = (function, (numbers(*sizes),), numbers(*sizes, number=4))
    small = numbers(16), numbers(16, number=1)
    rows["call1"] = (lambda x, o: x * o, small, None)
    for blocks in (1, 4):
        rows[f"call{5 * blocks}"] = (lambda x, o, blocks=blocks: chain(x, o, blocks), small, None)
    return rows


def called(function, inputs, gradient):
    if gradient is None:
        return function(*inputs)
    leaf = inputs[0].detach().requires_grad_()
    function(leaf).backward(gradient)
    return leaf.grad


def median_time(body, seconds, clock, wait):
    """As bench/timing.h: calls in groups of at least 100 µs, the median over `seconds`."""
    if wait:
        calls = 20

        def many():
            for _ in range(calls):
                body()
            wait()
        return median_time(many, seconds, clock, None) / calls
    for _ in range(3):
        body()
    begin = clock()
    body()
    group = max(1, int(100e-6 / max(clock() - begin, 1e-9)))
    times, start = [], clock()
    while clock() - start < seconds or len(times) < 5:
        begin = clock()
        for _ in range(group):
            body()
        times.append((clock() - begin) / group)
    return statistics.median(times)


def samples_of(result):
    flat = result.detach().double().reshape(-1)
    return [flat[i * (flat.numel() - 1) // 63].item() for i in range(64)]


def run_peer(arguments):
    import torch
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.clock == "cpu" else time.perf_counter
    wait = torch.cuda.synchronize if arguments.device == "cuda" else None
    for name, (function, inputs, gradient) in peer_rows(torch, arguments.device).items():
        if arguments.filter not in name:
            continue
        torch._dynamo.reset()
        compiled = torch.compile(function)
        eager_result = called(function, inputs, gradient)
        begin = time.perf_counter()
        result = called(compiled, inputs, gradient)
        wait and wait()
        first = time.perf_counter() - begin
        eager, fused = [], []
        for _ in range(arguments.rounds):
            eager.append(median_time(lambda: called(function, inputs, gradient), arguments.seconds, clock, wait))
            fused.append(median_time(lambda: called(compiled, inputs, gradient), arguments.seconds, clock, wait))
        print(json.dumps({"name": name, "eager_us": statistics.median(eager) * 1e6,
                          "compiled_us": statistics.median(fused) * 1e6, "first_ms": first * 1e3,
                          "samples": samples_of(result), "eager_samples": samples_of(eager_result)}), flush=True)


# ---- the table --------------------------------------------------------------------------------

def lines_of(command, environment):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(str(part) for part in command)}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def apart(ours, theirs):
    scale = max(abs(value) for value in theirs) or 1
    return max((abs(a - b) if math.isfinite(a) and math.isfinite(b) else math.inf) for a, b in zip(ours, theirs)) / scale


HEADER = (f"{'':26}{'ours':>10}{'compiled':>10}{'first':>9}{'torch':>10}{'compiled':>10}{'first':>9}"
          f"{'x eager':>9}{'x torch':>9}{'x compiled':>11}{'of copy':>8}")


def show(name, ours, peer, unit, agree):
    scale = 1e-3 if unit == "ms" else 1
    one = ours["compiled_us"]
    figures = [ours["eager_us"] * scale, one * scale]
    text = f"{name:26}{figures[0]:10.1f}{figures[1]:10.1f}{ours['first_ms']:7.1f}ms"
    if peer:
        text += f"{peer['eager_us'] * scale:10.1f}{peer['compiled_us'] * scale:10.1f}{peer['first_ms']:7.0f}ms"
    text += f"{ours['eager_us'] / one:9.2f}"
    if peer:
        text += f"{peer['eager_us'] / one:9.2f}{peer['compiled_us'] / one:11.2f}"
    if "share" in ours:
        text += f"{ours['share']:8.0%}"
    print(text + f" {unit}" + ("" if agree else "  RESULTS DIFFER"), flush=True)


def measure_functions(arguments, environment, rows):
    common = ["--filter", arguments.filter, "--seconds", arguments.seconds, "--rounds", arguments.rounds,
              "--clock", arguments.clock, "--device", arguments.device]
    ours = lines_of([arguments.build / "bin/tensora-bench-jit", *common, "--wide", int(arguments.wide)], environment)
    copy = ours.pop(0)["copy"]
    print(f"a copy moves {copy / 1e9:.0f} GB/s")
    peers = {}
    if ours and not arguments.alone:
        peer = [arguments.python, pathlib.Path(__file__).resolve(), "--peer", "--threads", arguments.threads, *common]
        peers = {row["name"]: row for row in lines_of(peer, environment)}
    good = True
    for row in ours:
        name, peer = row["name"], peers.get(row["name"])
        # bfloat16 chains: eight bits, and torch.compile does not round between ops.
        tolerance, compiled_tolerance = (4e-3, 4e-2) if "bf16" in name else (1e-5, 1e-5)
        if arguments.wide:
            tolerance = compiled_tolerance
        agree = row["difference"] <= tolerance
        if peer:
            agree = agree and apart(row["samples"], peer["eager_samples"]) <= tolerance
            agree = agree and apart(row["samples"], peer["samples"]) <= compiled_tolerance
        row["share"] = row["bytes"] / (row["compiled_us"] * 1e-6) / copy
        show(name, row, peer, "us", agree)
        rows[name] = {"ours": row, "torch": peer, "agree": agree}
        good = good and agree
    return good


def measure_training(arguments, environment, name, rows):
    """Steps of bench/train.py, each in a process of its own."""
    common = ["--device", arguments.device, "--curve", 10, "--timed", arguments.steps]
    peer = [arguments.python, ROOT / "bench/train.py", "--peer", name, "--threads", arguments.threads, *common]
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(folder) / "weights.safetensors"
        eager = lines_of([*peer, "--weights", weights], environment)[-1]
        compiled = lines_of([*peer, "--compiled"], environment)[-1]
        mine = [arguments.build / "bin/tensora-bench-train", "--case", name, "--weights", weights, *common]
        runs = {mode: [lines_of([*mine, "--compiled", mode], environment)[-1] for _ in range(arguments.rounds)]
                for mode in (0, 1)}
    middle = lambda mode: statistics.median(run["ms"] for run in runs[mode]) * 1e3
    ours = {"eager_us": middle(0), "compiled_us": middle(1), "first_ms": runs[1][0]["first_ms"]}
    torch = {"eager_us": eager["ms"] * 1e3, "compiled_us": compiled["ms"] * 1e3, "first_ms": compiled["first_ms"]}
    tolerance = 2e-3 if arguments.device == "cpu" else 2e-2  # on CUDA in bfloat16
    agree = all(apart(runs[1][0]["losses"], other["losses"]) <= tolerance for other in (runs[0][0], eager, compiled))
    show(name, ours, torch, "ms", agree)
    rows[name] = {"ours": ours, "torch": torch, "agree": agree}
    return agree


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--filter", default="", help="only rows whose name contains this")
    parser.add_argument("--seconds", type=float, default=0.3, help="that a row is timed, per round")
    parser.add_argument("--rounds", type=int, default=3, help="of eager and compiled calls in turn")
    parser.add_argument("--steps", type=int, default=15, help="training steps that are timed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", default="wall", choices=("wall", "cpu"),
                        help="cpu: processor time, on a machine that others use too; with --threads 1")
    parser.add_argument("--wide", action="store_true",
                        help="our functions keep 16-bit floats in float32 between ops, as torch.compile does")
    parser.add_argument("--alone", action="store_true", help="without PyTorch: functions only")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    parser.add_argument("--python", default=sys.executable, help="the interpreter whose PyTorch is the peer")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        return run_peer(arguments)
    environment = {**os.environ, "TENSORA_NUM_THREADS": str(arguments.threads)}
    rows = {}
    print(HEADER)
    good = measure_functions(arguments, environment, rows)
    for name in TRAINING[arguments.device]:
        if arguments.filter in name and not arguments.alone:
            good = measure_training(arguments, environment, name, rows) and good
    if not rows:
        sys.exit(f"there is no row '{arguments.filter}'")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
