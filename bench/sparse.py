#!/usr/bin/env python3
"""`python bench/sparse.py`: products of CSR matrices with dense ones, and their gradients, beside PyTorch.

Each round runs one framework after the other, each in a process of its own; the table shows the least time of
all rounds: processor time for one thread, which other programs disturb less, and elapsed time for several. Needs a Python that has PyTorch and finds the package.
"""
import argparse
import json
import os
import subprocess
import sys
import time
import warnings

# Rows and columns, share of elements that are entries.
SHAPES = ((4096, 0.001), (4096, 0.01), (4096, 0.1), (100_000, 1e-4))
WIDTHS = (1, 16, 64, 256)
MOST = 200_000_000  # multiplications


def least(run, seconds, clock):
    run()
    best, end = float("inf"), clock() + seconds
    while clock() < end:
        start = clock()
        run()
        best = min(best, clock() - start)
    return best * 1e3


def measure(framework, threads, seconds):
    warnings.simplefilter("ignore")
    if framework == "tensora":
        import tensora as torch
    else:
        import torch
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    clock = time.process_time if threads == 1 else time.perf_counter
    found = {}
    for size, density in SHAPES:
        nnz = int(size * size * density)
        positions = torch.randint(0, size * size, (nnz,)).unique()
        rows, columns = positions // size, positions % size
        crow = torch.searchsorted(rows, torch.arange(size + 1))
        matrix = torch.sparse_csr_tensor(crow, columns, torch.randn(len(rows)), (size, size))
        for width in WIDTHS:
            if nnz * width > MOST:
                continue
            dense, gradient = torch.randn(size, width), torch.randn(size, width)
            product = torch.sparse.mm(matrix, dense.requires_grad_())
            name = f"{size} x {size}, {density:g}, {width}"
            with torch.no_grad():
                found[name, "product"] = least(lambda: torch.sparse.mm(matrix, dense), seconds, clock)
                found[name, "sampled product"] = least(
                    lambda: torch.sparse.sampled_addmm(matrix, gradient, dense.t(), beta=0.0), seconds, clock)
            found[name, "gradient of dense"] = least(
                lambda: torch.autograd.grad(product, dense, gradient, retain_graph=True), seconds, clock)
    print(json.dumps([[*key, value] for key, value in found.items()]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="per row and round, default 0.3")
    parser.add_argument("--framework", choices=("tensora", "torch"), help="measure this one alone, in this process")
    arguments = parser.parse_args()
    if arguments.framework:
        return measure(arguments.framework, arguments.threads[0], arguments.seconds)
    best = {}
    for _ in range(arguments.rounds):
        for threads in arguments.threads:
            for framework in ("tensora", "torch"):
                words = [sys.executable, __file__, "--framework", framework, "--threads", str(threads),
                         "--seconds", str(arguments.seconds)]
                text = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=os.environ).stdout
                for name, what, value in json.loads(text):
                    key = name, what, threads, framework
                    best[key] = min(best.get(key, float("inf")), value)
    print("| size, density, width | row |" + "".join(f" {t} thread{'s' * (t > 1)}, ms | × PyTorch |" for t in arguments.threads))
    print("|---|---|" + "--:|--:|" * len(arguments.threads))
    for name, what in dict.fromkeys(key[:2] for key in best):
        cells = ""
        for threads in arguments.threads:
            ours, theirs = (best[name, what, threads, framework] for framework in ("tensora", "torch"))
            cells += f" {ours:.3g} | {theirs / ours:.2f} |"
        print(f"| {name} | {what} |{cells}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
