#!/usr/bin/env python3
"""`./dev bench cuda`: our figures on a GPU beside PyTorch's, from one run.

Ours come from the program tensora-bench-cuda (bench/cuda.cpp), which checks each row before it times
it; PyTorch's rows have the same names. Each round runs one after the other, and the table shows the
medians over the rounds. Matrix products and the rows called _graph are replayed from a CUDA graph on
both sides: what the device needs, without the host.

Needs nothing but the program and its libraries: --program runs it from anywhere.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS, COLS, SIDE, LONG_ROWS = 65536, 4096, 16384, 1024


# ---- PyTorch's rows ---------------------------------------------------------------------------

def load_torch():
    """The module, or None with a sentence why there are no peer columns."""
    try:
        import torch
    except ImportError as error:
        print(f"PyTorch is not installed ({error}): no peer columns", file=sys.stderr)
        return None
    if not torch.cuda.is_available():
        print("PyTorch finds no GPU: no peer columns", file=sys.stderr)
        return None
    return torch


def group_ms(torch, body, calls):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        body()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls


def device_ms(torch, body):
    """Milliseconds per call, the median of several groups of calls."""
    group_ms(torch, body, 3)
    calls = min(max(int(10 / max(group_ms(torch, body, 3), 1e-4)), 1), 1000)
    return statistics.median(group_ms(torch, body, calls) for _ in range(7))


# Note [The power limit]
# Large products draw more power than the card may have, and it lowers its clock; a product that is
# timed right after them runs up to 17 % slower. Both sides rest before each product.
def graph_ms(torch, body):
    """The same of a recorded graph of up to ten calls."""
    with torch.cuda.stream(torch.cuda.Stream()):
        group_ms(torch, body, 3)
        calls = min(max(int(1 / max(group_ms(torch, body, 3), 1e-4)), 1), 10)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            body()
    time.sleep(0.2)
    return device_ms(torch, graph.replay) / calls


def loop_rows(torch, name):
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[name]
    F = torch.nn.functional
    make = lambda *sizes: torch.randn(*sizes, device="cuda", dtype=dtype)
    x, y, line, column = make(ROWS, COLS), make(ROWS, COLS), make(COLS), make(ROWS, 1)
    out = torch.empty_like(x)
    square, turned = x.view(SIDE, SIDE), out.view(SIDE, SIDE)
    bodies = {
        "copy": lambda: out.copy_(x), "fill": lambda: out.fill_(3), "add": lambda: x + y,
        "add_row": lambda: x + line, "add_column": lambda: x + column,
        "add_number": lambda: x + 2.0, "relu": lambda: F.relu(x), "exp": lambda: torch.exp(x),
        "sigmoid": lambda: torch.sigmoid(x), "tanh": lambda: torch.tanh(x),
        "gelu": lambda: F.gelu(x), "sum_all": lambda: x.sum(), "sum_rows": lambda: x.sum(1),
        "sum_cols": lambda: x.sum(0), "max_rows": lambda: x.max(1),
        "transposed_copy": lambda: turned.copy_(square.t()), "var_rows": lambda: x.var(1),
        "var_long_rows": lambda: x.view(LONG_ROWS, -1).var(1), "var_cols": lambda: x.var(0),
    }
    for row, body in bodies.items():
        yield f"{name}.{row}", lambda body=body: device_ms(torch, body)


def choice_rows(torch):
    """Choosing elements by a mask, by indices, at random: see choices in bench/cuda.cpp."""
    x = torch.randn(1 << 24, device="cuda")
    mask, square = x > 0, (x > 0).view(4096, 4096)
    table = torch.randn(50257, 768, device="cuda")
    tokens = torch.randint(0, 50257, (16384,), device="cuda")
    one_row = torch.rand(1 << 20, device="cuda")
    rows = torch.rand(256, 32768, device="cuda")
    bodies = {
        "nonzero": lambda: mask.nonzero(), "nonzero_2d": lambda: square.nonzero(),
        "masked_select": lambda: torch.masked_select(x, mask),
        "index_select": lambda: torch.index_select(table, 0, tokens),
        "randperm_1M": lambda: torch.randperm(1 << 20, device="cuda"),
        "randperm_16M": lambda: torch.randperm(1 << 24, device="cuda"),
        "multinomial_1M": lambda: torch.multinomial(one_row, 64),
        "multinomial_256x32768": lambda: torch.multinomial(rows, 64),
    }
    for row, body in bodies.items():
        yield row, lambda body=body: device_ms(torch, body)


def product_row(torch, name):
    """`bf16.matmul.64x512x512x512t+bias`: see name_of in bench/cuda.cpp."""
    type_name, sizes, transposed, bias = re.fullmatch(
        r"(\w+)\.matmul(?:_tuned)?\.([\dx]+)(t?)(\+bias)?", name).groups()
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32,
             "tf32": torch.float32, "f64": torch.float64}[type_name]
    *batch, m, k, n = map(int, sizes.split("x"))
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)
    a = make(*batch, m, k)
    b = make(*batch, n, k).transpose(-2, -1) if transposed else make(*batch, k, n)
    vector = make(n)
    torch.backends.cuda.matmul.allow_tf32 = type_name == "tf32"
    return graph_ms(torch, (lambda: torch.addmm(vector, a, b)) if bias
                    else (lambda: torch.matmul(a, b)))


def training_row(torch, batch, in_graph):
    """The fastest of Adam's forms, as a user would choose."""
    nn = torch.nn
    x = torch.randn(batch, 784, device="cuda")
    labels = torch.randint(0, 10, (batch,), device="cuda")
    times = []
    for fused in (False, True):
        model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                              nn.Linear(512, 10)).cuda()
        optimizer = torch.optim.Adam(model.parameters(), fused=fused, capturable=in_graph)

        def step():
            optimizer.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), labels).backward()
            optimizer.step()
        times.append((graph_ms if in_graph else device_ms)(torch, step))
    return min(times)


def launch_row(torch, needs_grad):
    one = torch.ones(1, device="cuda")
    x = torch.ones(1, device="cuda", requires_grad=needs_grad)
    return device_ms(torch, lambda: x + one)


def peer_times(torch, names):
    """Name -> milliseconds, for those of `names` that PyTorch has a row for."""
    times = {}

    def note(name, measure):
        if name in names:
            times[name] = measure()
    with torch.no_grad():
        for kind in ("f32", "bf16"):
            if any(name.startswith(kind + ".") and ".matmul" not in name for name in names):
                for name, measure in loop_rows(torch, kind):
                    note(name, measure)
                torch.cuda.empty_cache()
        for name, measure in choice_rows(torch):
            note(name, measure)
        torch.cuda.empty_cache()
        for name in names:
            if ".matmul" in name:
                times[name] = product_row(torch, name)
                torch.cuda.empty_cache()
    torch.backends.cuda.matmul.allow_tf32 = False
    for batch in (64, 256):
        note(f"mlp_b{batch}", lambda: training_row(torch, batch, False))
        note(f"mlp_b{batch}_graph", lambda: training_row(torch, batch, True))
    note("add_1_element", lambda: launch_row(torch, False))
    note("add_1_element_grad", lambda: launch_row(torch, True))
    return times


# ---- ours, and the table ------------------------------------------------------------------------

def our_rows(program, pattern):
    command = [str(program)] + (["--filter", pattern] if pattern else [])
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode not in (0, 1):
        sys.exit(result.returncode)
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 and all(row["correct"] for row in rows):
        sys.exit("the program failed after the rows above")
    return rows


def figure(row, ms):
    """A time as what the row is about."""
    if ms is None:
        return None
    if row["bytes"]:
        return row["bytes"] / ms * 1e-9
    return row["flops"] / ms * 1e-9 if row["flops"] else ms * 1e3


def show(rows):
    text = lambda value, form: "-" if value is None else format(value, form)
    print(f"{'row':36}{'unit':>9}{'ours':>10}{'PyTorch':>10}{'x PyTorch':>11}{'% of copy':>11}")
    for row in rows:
        print(f"{row['name']:36}{row['unit']:>9}{row['ours']:>10.4g}"
              f"{text(row['pytorch'], '.4g'):>10}{text(row['speedup'], '.2f'):>11}"
              f"{text(row['percent_of_copy'], '.1f'):>11}"
              f"{'' if row['correct'] else '   WRONG RESULT'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--filter", default="", help="only rows whose name contains this")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--program", type=pathlib.Path, help="default: bin/tensora-bench-cuda of "
                        "the build folder")
    arguments = parser.parse_args()
    program = arguments.program or arguments.build / "bin/tensora-bench-cuda"
    if not program.exists():
        sys.exit(f"{program} is missing: it is built where the CUDA toolkit is installed")
    torch = load_torch()
    ours, peers, kept = {}, {}, {}
    for _ in range(arguments.rounds):
        for row in our_rows(program, arguments.filter):
            first = kept.setdefault(row["name"], row)
            first["correct"] &= row["correct"]
            ours.setdefault(row["name"], []).append(row["ms"])
        if torch:
            for name, ms in peer_times(torch, kept.keys()).items():
                peers.setdefault(name, []).append(ms)
    rows = []
    for name, row in kept.items():
        ms = statistics.median(ours[name])
        peer_ms = statistics.median(peers[name]) if name in peers else None
        copy = kept.get(name.split(".")[0] + ".copy")
        percent = None
        if row["bytes"] and copy:
            percent = 100 * figure(row, ms) / figure(copy, statistics.median(ours[copy["name"]]))
        rows.append({"name": name, "ours": figure(row, ms), "pytorch": figure(row, peer_ms),
                     "unit": "TB/s" if row["bytes"] else "TFLOP/s" if row["flops"] else "us",
                     "speedup": peer_ms / ms if peer_ms else None, "percent_of_copy": percent,
                     "correct": row["correct"]})
    show(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if all(row["correct"] for row in rows) else 1)


if __name__ == "__main__":
    main()
