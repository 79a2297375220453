"""Runs one program of the package programs and keeps its numbers.

    python run_one.py NAME OUT.npz                         with PyTorch
    python -m tensora.compat run_one.py NAME OUT.npz
"""
import random
import sys

import numpy
from programs import PROGRAMS


def plain(value):
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return numpy.asarray(value)


def main():
    name, path = sys.argv[1:]
    import torch
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    numpy.savez(path, **{key: plain(value) for key, value in PROGRAMS[name]().items()})


if __name__ == "__main__":
    main()
