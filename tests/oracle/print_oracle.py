#!/usr/bin/env python3
"""Compares the printed form of random tensors with PyTorch's.

Usage: print_oracle.py PROGRAM [COUNT], where PROGRAM is the built print_tensors. Exits with 77,
saying so, where PyTorch is not installed.
"""
import random
import subprocess
import sys

try:
    import torch
except ImportError:
    print("print_oracle: skipped, PyTorch is not installed for", sys.executable)
    sys.exit(77)

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64", "bool"]
DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci": -1}


def random_options(rng):
    options = dict(DEFAULTS)
    if rng.random() < 0.3:
        options["precision"] = rng.randrange(0, 9)
    if rng.random() < 0.3:
        options["threshold"] = rng.choice([0, 5, 20, 100])
    if rng.random() < 0.3:
        options["edgeitems"] = rng.randrange(1, 5)
    if rng.random() < 0.3:
        options["linewidth"] = rng.choice([10, 20, 40, 77, 120])
    if rng.random() < 0.2:
        options["sci"] = rng.randrange(2)
    return options


def random_sizes(rng):
    if rng.random() < 0.1:
        return rng.choice([[1200], [40, 40], [1001, 2], [8, 9, 20], [2, 1500]])
    sizes = [rng.randrange(1, 8) for _ in range(rng.randrange(0, 5))]
    if sizes and rng.random() < 0.1:
        sizes[rng.randrange(len(sizes))] = 0
    return sizes


def random_tensor(rng, sizes):
    count = 1
    for size in sizes:
        count *= size
    if rng.random() < 0.35:
        dtype = rng.choice(INTEGERS)
        limits = {"bool": (0, 1), "uint8": (0, 255), "int8": (-128, 127)}.get(
            dtype, (-10 ** rng.randrange(1, 5), 10 ** rng.randrange(1, 5)))
        values = [rng.randint(*limits) for _ in range(count)]
        return torch.tensor(values, dtype=getattr(torch, dtype)).reshape(sizes), dtype
    dtype = rng.choice(FLOATS)
    kind = rng.choice(["normal", "whole", "wide", "tiny", "large", "zeros", "odd"])
    draw = {
        "normal": lambda: rng.gauss(0, 1),
        "whole": lambda: float(rng.randint(-2000, 2000)),
        "wide": lambda: rng.gauss(0, 1) * 10 ** rng.randint(-6, 6),
        "tiny": lambda: rng.gauss(0, 1) * 1e-4,
        "large": lambda: rng.gauss(0, 1) * 1e8,
        "zeros": lambda: rng.choice([0.0, -0.0]),
        "odd": lambda: rng.choice([0.0, 1.5, float("nan"), float("inf"), -float("inf"), -3.0]),
    }[kind]
    values = [draw() for _ in range(count)]
    return torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype)).reshape(sizes), dtype


def described(tensor, dtype, options):
    if tensor.is_floating_point():
        values = [repr(value) for value in tensor.detach().double().reshape(-1).tolist()]
    else:
        values = [str(int(value)) for value in tensor.reshape(-1).tolist()]
    head = [options[key] for key in ("precision", "threshold", "edgeitems", "linewidth", "sci")]
    return " ".join(map(str, [*head, dtype, int(tensor.requires_grad), tensor.dim(),
                              *tensor.shape, *values]))


def expected_text(tensor, options):
    torch.set_printoptions(precision=options["precision"], threshold=options["threshold"],
                           edgeitems=options["edgeitems"], linewidth=options["linewidth"],
                           sci_mode=None if options["sci"] < 0 else bool(options["sci"]))
    return repr(tensor)


def main():
    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500
    rng = random.Random(20)
    lines, expected = [], []
    for _ in range(count):
        tensor, dtype = random_tensor(rng, random_sizes(rng))
        if tensor.is_floating_point() and rng.random() < 0.1:
            tensor.requires_grad_()
        options = random_options(rng)
        lines.append(described(tensor, dtype, options))
        expected.append(expected_text(tensor, options))
    output = subprocess.run([program], input="\n".join(lines), text=True, check=True,
                            capture_output=True).stdout
    got = output.split("\n\f\n")[:-1]
    if len(got) != count:
        print(f"print_oracle: expected {count} texts, got {len(got)}")
        return 1
    failures = [i for i in range(count) if got[i] != expected[i]]
    for i in failures[:5]:
        print(f"--- {lines[i][:200]}\nPyTorch:\n{expected[i]}\nTensora:\n{got[i]}\n")
    print(f"print_oracle: {count - len(failures)} of {count} texts agree with PyTorch "
          f"{torch.__version__}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
