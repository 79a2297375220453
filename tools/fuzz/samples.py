"""Random tensors, the same on both sides: shapes with empty dims and none, layouts, special values."""
import math

import torch

import tensora_glue as glue

FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = {"complex64": "float32", "complex128": "float64"}  # and of what its numbers are pairs
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
ALL = ["bool"] + INTEGERS + FLOATS
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, math.inf, -math.inf, math.nan, 1e20, -1e25, 1e-30]
EXTREME = [-2**63, -2**62, -2**32, -7, -1, 0, 1, 2, 3, 6, 2**31, 2**32, 2**62, 2**63 - 1]


def torch_dtype(name):
    return getattr(torch, name)


class Sample:
    """A tensor of both libraries, and the text that makes it. Gradients arrive at the leaves."""

    def __init__(self, ours, theirs, text, leaves, views=lambda leaf: leaf):
        self.ours, self.theirs, self.text, self.leaves, self.views = ours, theirs, text, leaves, views

    def wide(self):
        """PyTorch's tensor with the same numbers in float64, and its leaf, if it has one."""
        if not self.leaves:
            wide = {torch.complex64: torch.complex128}.get(self.theirs.dtype, torch.float64)
            inexact = self.theirs.is_floating_point() or self.theirs.is_complex()
            return self.theirs.detach().to(wide) if inexact else self.theirs, None
        leaf = self.leaves[0][1].detach().double().requires_grad_()
        return self.views(leaf), leaf


class Drawn:
    """What samples are like: small, unless the loops for many elements are meant to run."""
    large = False


def shape(rng, dims=None):
    count = rng.choice([0, 1, 1, 2, 2, 3, 4]) if dims is None else dims
    if Drawn.large:
        most = {1: 5000, 2: 70, 3: 18}.get(count, 9)
        return [rng.choice([1, 2, most, rng.randint(1, most)]) for _ in range(count)]
    return [rng.choice([0, 1, 1, 2, 3, 4, 5]) if rng.random() < 0.5 else rng.randint(1, 4)
            for _ in range(count)]


def weights(count):
    """Seeds of a gradient: not alike, so that none cancels, and exact in every float dtype."""
    return [0.5 * (i * 7 % 5) - 0.75 for i in range(count)]


def values(rng, dtype, count, calm=False):
    """Elements; calm ones are no special values."""
    if dtype == "bool":
        return [rng.random() < 0.5 for _ in range(count)]
    if dtype in INTEGERS:
        info = torch.iinfo(torch_dtype(dtype))
        wide = rng.random() < 0.3
        low, high = (info.min, info.max) if wide else (max(info.min, -4), 5)
        return [rng.randint(low, high) for _ in range(count)]
    special = not calm and rng.random() < 0.3
    return [rng.choice(SPECIAL) if special and rng.random() < 0.5 else rng.uniform(-4, 4)
            for _ in range(count)]


class Layouts:
    """Whether samples have random layouts; goldens are written without."""
    varied = True


def make(rng, dtype, sizes, grad=False, varied=True, calm=False):
    """A tensor of the given sizes in a random layout; a leaf and the views on the way to it."""
    steps, stored = layout(rng, list(sizes)) if varied and Layouts.varied else ([], list(sizes))
    if dtype in COMPLEX:
        steps, stored, dtype, calm = [("view_as_complex", {})] + steps, stored + [2], COMPLEX[dtype], True
    count = math.prod(stored)
    flat = torch.tensor(values(rng, dtype, count, calm), dtype=torch_dtype(dtype))
    theirs_leaf = flat.reshape(stored).clone().requires_grad_(grad)
    ours_flat = glue.Tensor(flat.tolist(), dtype=dtype)
    ours_leaf = glue.view(ours_flat, size=stored)
    if grad:
        ours_leaf = glue.Tensor(theirs_leaf.tolist(), dtype=dtype, requires_grad=True) \
            if count else glue.Tensor([], dtype=dtype, requires_grad=True)
    text = f"tensor({flat.tolist()}, {dtype}).view({stored})"
    ours = ours_leaf
    if grad and not count:
        ours = glue.view(ours, size=stored)
    for name, arguments in steps:
        ours = getattr(glue, name)(ours, **arguments)
        text += f".{name}({arguments})"

    def views(leaf):
        for name, arguments in steps:
            leaf = VIEWS[name](leaf, arguments)
        return leaf
    return Sample(ours, views(theirs_leaf), text, [(ours_leaf, theirs_leaf)] if grad else [], views)


VIEWS = {
    "permute": lambda x, a: x.permute(a["dims"]),
    "slice": lambda x, a: x[(slice(None),) * a["dim"] + (slice(a["start"], a["end"], a["step"]),)],
    "expand": lambda x, a: x.expand(a["size"]),
    "view": lambda x, a: x.view(a["size"]),
    "view_as_complex": lambda x, a: torch.view_as_complex(x),
}


def layout(rng, sizes):
    """View steps that end in `sizes`, and the sizes to begin with."""
    kind = rng.random()
    if not sizes or kind < 0.4:
        return [], sizes
    if kind < 0.6:
        order = list(range(len(sizes)))
        rng.shuffle(order)
        stored = [0] * len(sizes)
        for d, source in enumerate(order):
            stored[source] = sizes[d]
        return [("permute", {"dims": order})], stored
    dim = rng.randrange(len(sizes))
    if kind < 0.8:
        step, start = rng.choice([1, 2, 3]), rng.choice([0, 1])
        stored = list(sizes)
        stored[dim] = start + sizes[dim] * step
        more, stored_first = layout(rng, stored) if rng.random() < 0.4 else ([], stored)
        if any(name == "expand" for name, _ in more):
            more, stored_first = [], stored
        return more + [("slice", {"dim": dim, "start": start, "end": stored[dim], "step": step})], \
            stored_first
    stored = list(sizes)
    stored[dim] = 1
    return [("expand", {"size": list(sizes)})], stored
