"""How one line describes the calls of an op."""
import tensora_glue as glue
import torch

from samples import ALL, EXTREME, FLOATS, INTEGERS, make


def broadcastable(rng, sizes):
    """Sizes that go with the given ones, most of the time."""
    result = [1 if rng.random() < 0.2 else size for size in sizes[rng.choice([0, 0, 0, 1]):]]
    if result and rng.random() < 0.05:
        result[0] += 1
    return result


# Of an op: what its inputs are, then its attributes, each a value or a function that draws one, and,
# where PyTorch spells the call otherwise, PyTorch's function of the inputs and the attributes.

def floats(rng, sizes, _):
    return make(rng, rng.choice(FLOATS), sizes, True)


def anything(rng, sizes, _):
    dtype = rng.choice(ALL)
    return make(rng, dtype, sizes, dtype in FLOATS)


def integers(rng, sizes, _):
    return make(rng, rng.choice(INTEGERS), sizes)


def alike(rng, sizes, before):
    """Of the first input's dtype, and of its shape or one that goes with it."""
    dtype = str(before[0].theirs.dtype)[6:]
    return make(rng, dtype, broadcastable(rng, list(before[0].theirs.shape)), dtype in FLOATS)


def same(rng, sizes, before):
    """Of the first input's dtype and shape."""
    dtype = str(before[0].theirs.dtype)[6:]
    return make(rng, dtype, list(before[0].theirs.shape), dtype in FLOATS)


def mask(rng, sizes, _):
    return make(rng, "bool", broadcastable(rng, sizes))


def dim(rng, sizes):
    if rng.random() < 0.05:
        return rng.choice(EXTREME)
    return rng.randrange(-len(sizes), len(sizes)) if sizes else rng.choice([0, -1])


def dims(rng, sizes):
    return rng.sample(range(len(sizes)), rng.randint(0, len(sizes))) if sizes else []


def flag(rng, _):
    return rng.random() < 0.5


def one_of(*choices):
    return lambda rng, _: rng.choice(choices)


def places(rng, sizes, before):
    """Positions in the first dim of the first input, one of them rarely beyond it."""
    count = before[0].theirs.shape[0] + (1 if rng.random() < 0.05 else 0)
    return chosen(rng, [rng.randint(0, 4)], lambda: rng.randrange(max(count, 1)))


def three_places(rng, sizes, before):
    order = rng.sample(range(before[0].theirs.shape[0]), 3)
    return chosen(rng, [3], order.pop)


def three_rows(rng, sizes, before):
    return make(rng, str(before[0].theirs.dtype)[6:], [3, *before[0].theirs.shape[1:]])


def classes(rng, sizes, _):
    return chosen(rng, sizes, lambda: rng.randint(0, 11))


def chosen(rng, sizes, draw):
    """An int64 tensor of drawn elements."""
    sample = make(rng, "int64", sizes)
    theirs = torch.tensor([draw() for _ in range(sample.theirs.numel())], dtype=torch.int64).view(sizes)
    ours = glue.view(glue.Tensor(theirs.flatten().tolist(), dtype="int64"), size=list(sizes))
    return type(sample)(ours, theirs, f"tensor({theirs.tolist()})", [])


class Line:
    """The calls of an op; `first`: PyTorch returns only the first of its outputs. `ours` takes the
    place of the op of that name, where what is compared is made of several."""

    def __init__(self, *inputs, ours=None, theirs=None, ranks=(0, 1, 2, 3), grads=True, first=False, **attributes):
        self.inputs, self.ours, self.theirs, self.ranks = inputs, ours, theirs, ranks
        self.grads, self.first, self.attributes = grads, first, attributes


def matrices(rng, sizes, before):
    """Matrices and vectors whose product most often exists."""
    if not before:
        return make(rng, rng.choice(["float32", "float64", "int64"]), sizes, False)
    first = list(before[0].theirs.shape)
    inner = first[-1] + (1 if rng.random() < 0.05 else 0)
    batch = [1 if rng.random() < 0.3 else size for size in first[:-2]]
    return make(rng, str(before[0].theirs.dtype)[6:], batch + [inner, rng.randint(0, 4)])
