"""How near numbers of the two libraries have to be."""
import cmath
import math

import torch

DIGITS = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 4e-6, "float64": 1e-11,
          "complex64": 8e-6, "complex128": 2e-11}


def flat(items):
    return [x for item in items for x in flat(item)] if isinstance(items, list) else [items]


def numbers(tensor):
    """The elements of a PyTorch tensor in one list."""
    tensor = tensor.detach().resolve_conj().flatten()
    return (torch.zeros_like(tensor) if tensor._is_zerotensor() else tensor).tolist()


def size(number):
    """The magnitude, infinite where Python's abs would throw."""
    return math.hypot(number.real, number.imag)


def close(ours, theirs, dtype, loose):
    if theirs != theirs:  # NaN, or complex with one
        return ours != ours
    if dtype not in DIGITS or cmath.isinf(theirs):
        return ours == theirs
    tolerance = DIGITS[dtype] * (100 if loose else 1)
    return size(ours - theirs) <= tolerance * max(1e-2 if not loose else 1, size(theirs))


def is_rounding(ours, theirs, right, dtype):
    """Whether ours are as near to the right numbers as PyTorch's are, or as the largest of them allows."""
    if right is None or right.numel() != len(ours):
        return False
    mistakes, largest = [0.0, 0.0], 0.0
    for x, y, z in zip(ours, theirs, numbers(right)):
        if cmath.isfinite(x) and cmath.isfinite(y) and cmath.isfinite(z):
            mistakes = [max(mistakes[0], size(x - z)), max(mistakes[1], size(y - z))]
            largest = max(largest, size(z))
        elif not (x == y or x != x and y != y or close(x, z, dtype, True)):
            return False
    return mistakes[0] <= max(4 * mistakes[1], 10 * DIGITS.get(dtype, 0) * largest)
