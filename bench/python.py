#!/usr/bin/env python3
"""The cost of small calls from Python, beside PyTorch where it is installed: ./dev bench python

Times are the best of many short runs, in microseconds.
"""
import argparse
import importlib
import json
import subprocess
import sys
import time


def best(function, calls=2000, runs=30):
    """Microseconds of one call."""
    fastest = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest / calls * 1e6


def cases(torch):
    """(name, function) of every measured call."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = torch.ones(1), torch.ones(1)
    leaf = torch.ones(1, requires_grad=True)
    matrix = torch.randn(8, 8)
    linear = torch.nn.Linear(16, 16)
    row = torch.randn(1, 16)
    index = torch.tensor([0, 2, 5])
    yield "add, one element", lambda: x + y
    yield "add a number", lambda: x + 1.0
    yield "add with gradients", lambda: leaf + y
    yield "torch.add", lambda: torch.add(x, y)
    yield "x.add", lambda: x.add(y)
    yield "index x[2]", lambda: matrix[2]
    yield "slice x[1:, 2]", lambda: matrix[1:, 2]
    yield "index by a tensor", lambda: matrix[index]
    yield "sum", lambda: matrix.sum()
    yield "sum(dim)", lambda: matrix.sum(dim=1)
    yield "view(4, 16)", lambda: matrix.view(4, 16)
    yield "shape", lambda: matrix.shape
    yield "item", lambda: x.item()
    yield "nn.Linear", lambda: linear(row)
    yield "MLP training step", training_step(torch)


def training_step(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data, target = torch.randn(32, 32), torch.randint(0, 10, (32,))

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
    return step


def measure(name):
    torch = importlib.import_module(name)
    return {case: best(function, 50 if "step" in case else 2000, 20) for case, function in cases(torch)}


def import_time(name):
    """Milliseconds of `import name` in a new process."""
    program = f"import time; start = time.perf_counter(); import {name}; print(time.perf_counter() - start)"
    runs = [float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
            for _ in range(3)]
    return min(runs) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--build", help="accepted, as every benchmark takes it")
    arguments = parser.parse_args()
    ours = measure("tensora")
    theirs = measure("torch") if importlib.util.find_spec("torch") else {}
    print(f"{'':24}{'tensora':>10}{'torch':>10}{'ratio':>8}")
    for case, time_taken in ours.items():
        peer = theirs.get(case)
        print(f"{case:24}{time_taken:10.3f}" + (f"{peer:10.3f}{time_taken / peer:8.2f}" if peer else ""))
    print(f"import tensora: {import_time('tensora'):.0f} ms" + (f"; torch: {import_time('torch'):.0f} ms" if theirs else ""))
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"tensora": ours, "torch": theirs}, file, indent=1)


if __name__ == "__main__":
    import importlib.util
    main()
