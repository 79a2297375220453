"""Random programs: views of views, writes through them, and the gradients that result."""
import random

import torch

import tensora_glue as glue

from samples import weights

DTYPES = ["float64", "float64", "float32", "int64"]


class Pair:
    """A tensor of both libraries."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs


class Program:
    """Tensors that steps make and change, and the text of the steps."""

    def __init__(self, rng):
        self.rng, self.text, self.pairs = rng, [], []
        self.dtype = rng.choice(DTYPES)
        self.grads = self.dtype != "int64" and rng.random() < 0.7
        self.leaves = [self.leaf() for _ in range(rng.choice([1, 1, 2]))]

    def leaf(self):
        sizes = [self.rng.randint(1, 4) for _ in range(self.rng.choice([1, 2, 2, 3]))]
        count = torch.Size(sizes).numel()
        numbers = [self.rng.randint(-4, 4) if self.dtype == "int64" or self.rng.random() < 0.3 else
                   self.rng.uniform(-2, 2) for _ in range(count)]
        theirs = torch.tensor(numbers, dtype=getattr(torch, self.dtype)).view(sizes)
        ours = glue.Tensor(theirs.tolist(), dtype=self.dtype, requires_grad=self.grads)
        theirs.requires_grad_(self.grads)
        self.pairs.append(Pair(ours, theirs))
        self.text.append(f"t{len(self.pairs) - 1} = tensor({theirs.tolist()}, {self.dtype}, {self.grads})")
        # A leaf itself cannot be written to.
        self.step("clone", lambda x: glue.clone(x), lambda x: x.clone(), [len(self.pairs) - 1])
        return self.pairs[-2]

    def step(self, text, ours, theirs, operands, writes=False):
        """Runs a step on both sides; the failure of one alone is a difference."""
        arguments = ", ".join(f"t{i}" for i in operands)
        self.text.append(f"{'' if writes else f't{len(self.pairs)} = '}{text}({arguments})")
        results, errors = [], []
        for function, side in ((ours, "ours"), (theirs, "theirs")):
            try:
                results.append(function(*[getattr(self.pairs[i], side) for i in operands]))
                errors.append("")
            except (RuntimeError, IndexError, TypeError, ValueError) as error:
                errors.append(f"{type(error).__name__}: {error}".split("\n")[0])
        if "modified by an inplace operation" in errors[1] and not errors[0]:
            raise Ended  # Tensora keeps a copy of what a tensor combined with itself held
        if "share one memory location" in errors[0] and not errors[1]:
            raise Ended  # PyTorch writes them in any order
        if bool(errors[0]) != bool(errors[1]):
            raise Difference(errors[0] or "no error", errors[1] or "no error")
        if errors[0]:
            self.text[-1] += "  # both refuse"
        elif not writes:
            self.pairs.append(Pair(*results))


class Difference(Exception):
    """What the two libraries gave."""


class Ended(Exception):
    """PyTorch goes no further, on purpose."""


def viewed(program, number):
    rng, sizes = program.rng, list(program.pairs[number].theirs.shape)
    rank = len(sizes)
    kind = rng.choice(["select", "slice", "permute", "view", "diagonal", "expand", "unfold"]
                      if rank else ["view", "expand"])
    d = rng.randrange(rank) if rank else 0
    if kind == "select" and sizes[d]:
        i = rng.randrange(sizes[d])
        return "select", dict(dim=d, index=i), lambda x: x.select(d, i)
    if kind == "slice":
        a, b, s = rng.randint(0, 2), rng.randint(1, 4), rng.choice([1, 1, 2])
        at = (slice(None),) * d + (slice(a, b, s),)
        return "slice", dict(dim=d, start=a, end=b, step=s), lambda x: x[at]
    if kind == "permute":
        order = rng.sample(range(rank), rank)
        return "permute", dict(dims=order), lambda x: x.permute(order)
    if kind == "diagonal" and rank >= 2:
        offset = rng.randint(-1, 1)
        return "diagonal", dict(offset=offset), lambda x: x.diagonal(offset)
    if kind == "expand":
        wanted = [rng.randint(1, 3)] + [-1] * rank
        return "expand", dict(size=wanted), lambda x: x.expand(wanted)
    if kind == "unfold" and sizes[d] >= 2:
        return "unfold", dict(dimension=d, size=2, step=1), lambda x: x.unfold(d, 2, 1)
    wanted = [-1] if rng.random() < 0.5 else [1] + sizes
    return "view", dict(size=wanted), lambda x: x.view(wanted)


# Written in place: of one tensor, and of one with another that is broadcast to it.
ALONE = {"neg": torch.neg_, "sin": torch.sin_, "sigmoid": torch.sigmoid_, "relu": torch.relu_, "abs": torch.abs_,
         "tanh": torch.tanh_, "exp": torch.exp_, "square": torch.square_, "cos": torch.cos_, "erf": torch.erf_,
         "trunc": torch.trunc_}
OF_INTEGERS = ("neg", "relu", "abs", "square", "trunc")
WITH_OTHER = {"add": torch.Tensor.add_, "mul": torch.Tensor.mul_, "sub": torch.Tensor.sub_,
              "copy": torch.Tensor.copy_, "atan2": torch.Tensor.atan2_, "copysign": torch.Tensor.copysign_}


def overlap(a, b):
    """Whether PyTorch may read what it has already overwritten; Tensora copies first."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def written(program, number):
    rng = program.rng
    if rng.random() < 0.4:
        # The sine of large numbers has no digits in common where they differ in the last one.
        x = program.pairs[number].theirs.detach()
        large = bool((x.abs() > 100).any())
        # Where rounding has made 0.99999994 of 1, truncation makes 0.
        whole = program.dtype != "int64" and bool(((x.round() != 0) & ((x - x.round()).abs() < 1e-4)).any())
        name = rng.choice([n for n in ALONE if (program.dtype != "int64" or n in OF_INTEGERS) and
                           not (n in ("sin", "cos") and large) and not (n == "trunc" and whole)])
        return program.step(name + "_", getattr(glue, name + "_"), ALONE[name], [number], writes=True)
    if rng.random() < 0.3:
        value = rng.choice([0, 1, -2])
        return program.step(f"fill_ {value} ", lambda x: glue.fill_(x, value=value), lambda x: x.fill_(value),
                            [number], writes=True)
    name = rng.choice([n for n in WITH_OTHER if program.dtype != "int64" or n in ("add", "mul", "sub", "copy")])
    other = rng.randrange(len(program.pairs))
    if overlap(program.pairs[number].theirs, program.pairs[other].theirs) and other != number:
        return None
    return program.step(name + "_", getattr(glue, name + "_"), WITH_OTHER[name], [number, other], writes=True)


def along(program, number):
    """Reductions and scans over a dim."""
    rng, rank = program.rng, program.pairs[number].theirs.dim()
    if rank == 0:
        return None
    dim = rng.randrange(rank)
    name = rng.choice(["cumsum", "flip", "amax", "prod", "stack"])
    ours = {"cumsum": lambda x: glue.cumsum(x, dim=dim), "flip": lambda x: glue.flip(x, dims=[dim]),
            "amax": lambda x: glue.amax(x, dim=[dim]), "prod": lambda x: glue.prod(x, dim=[dim]),
            "stack": lambda x: glue.stack(x, x, dim=dim)}
    theirs = {"cumsum": lambda x: x.cumsum(dim), "flip": lambda x: x.flip(dim), "amax": lambda x: x.amax(dim),
              "prod": lambda x: x.prod(dim), "stack": lambda x: torch.stack([x, x], dim)}
    return program.step(f"{name} {dim} ", ours[name], theirs[name], [number])


def taken(program, number):
    """Elements by their positions, and written there."""
    rng, sizes = program.rng, program.pairs[number].theirs.shape
    if not sizes or not sizes[0]:
        return None
    places = [rng.randrange(sizes[0]) for _ in range(rng.randint(1, 3))]
    index, ours = torch.tensor(places), glue.Tensor(places, dtype="int64")
    if rng.random() < 0.5:
        return program.step(f"index_select {places} ", lambda x: glue.index_select(x, ours, dims=[0]),
                            lambda x: x.index_select(0, index), [number])
    kept = torch.zeros(sizes[0], dtype=torch.bool)
    kept[index] = True
    shape = [sizes[0]] + [1] * (len(sizes) - 1)
    mask = glue.view(glue.Tensor(kept.tolist(), dtype="bool"), size=shape)
    return program.step(f"masked_fill_ {places} ", lambda x: glue.masked_fill_(x, mask, value=3),
                        lambda x: x.masked_fill_(kept.view(shape), 3), [number], writes=True)


def computed(program, number):
    rng = program.rng
    other = rng.randrange(len(program.pairs))
    name = rng.choice(["mul", "add", "sum", "clone", "cat", "along", "where", "taken"])
    if name == "along":
        return along(program, number)
    if name == "where":
        return program.step("where", lambda x, y: glue.where(glue.gt(x, y), x, y),
                            lambda x, y: torch.where(x > y, x, y), [number, other])
    if name == "taken":
        return taken(program, number)
    if name == "sum":
        return program.step("sum", lambda x: glue.sum(x, dim=[0] if x.shape else []),
                            lambda x: x.sum(0) if x.dim() else x.sum(), [number])
    if name == "clone":
        return program.step("clone", lambda x: glue.clone(x), lambda x: x.clone(), [number])
    if name == "cat":
        return program.step("cat", lambda x, y: glue.cat(x, y, dim=0), lambda x, y: torch.cat([x, y], 0),
                            [number, other])
    return program.step(name, getattr(glue, name), getattr(torch, name), [number, other])


def run_steps(program):
    for _ in range(program.rng.randint(2, 10)):
        number = program.rng.randrange(len(program.pairs))
        if program.pairs[number].theirs.numel() > 200:
            continue
        kind = program.rng.random()
        if kind < 0.45:
            name, attributes, theirs = viewed(program, number)
            program.step(f"{name} {attributes} ", lambda x: getattr(glue, name)(x, **attributes), theirs, [number])
        elif kind < 0.8:
            written(program, number)
        else:
            computed(program, number)


def finish(program, compare_tensors):
    """Compares all tensors, then the leaves' gradients of the weighted sum of what has one."""
    for number, pair in enumerate(program.pairs):
        found = compare_tensors(pair.ours, pair.theirs.detach(), f"t{number}")
        if found:
            raise Difference(*found)
    ours, theirs = None, None
    for pair in program.pairs[-3:]:
        if pair.ours.requires_grad != pair.theirs.requires_grad:
            raise Difference(f"requires_grad {pair.ours.requires_grad}", f"requires_grad {pair.theirs.requires_grad}")
        if not pair.theirs.requires_grad or pair.theirs.numel() == 0:
            continue
        seed = torch.tensor(weights(pair.theirs.numel()), dtype=pair.theirs.dtype).view(pair.theirs.shape)
        given = glue.view(glue.Tensor(seed.flatten().tolist(), dtype=program.dtype), size=list(seed.shape))
        our_part, their_part = glue.sum(glue.mul(pair.ours, given)), (pair.theirs * seed).sum()
        ours = our_part if ours is None else glue.add(ours, our_part)
        theirs = their_part if theirs is None else theirs + their_part
    if theirs is None:
        return
    program.pairs.append(Pair(ours, theirs))
    program.step("backward", lambda x: x.backward(), lambda x: x.backward(), [len(program.pairs) - 1], writes=True)
    if "refuse" in program.text[-1]:
        return
    for leaf in program.leaves:
        if leaf.theirs.grad is None or leaf.ours.grad is None and not bool((leaf.theirs.grad != 0).any()):
            continue
        if leaf.ours.grad is None:
            raise Difference("no gradient", leaf.theirs.grad.tolist())
        found = compare_tensors(leaf.ours.grad, leaf.theirs.grad, "gradient")
        if found:
            raise Difference(*found)


def run(count, seed, show, compare_tensors):
    """Runs that many programs; returns how many differ."""
    different = refused = 0
    for number in range(count):
        program = None
        try:
            program = Program(random.Random(seed * 1_000_003 + number))
            run_steps(program)
            finish(program, compare_tensors)
        except Ended:
            pass
        except Difference as found:
            different += 1
            if different <= show:
                print(f"--- program {number}: tensora {found.args[0]}\n    pytorch {found.args[1]}")
                print("\n".join("    " + line for line in program.text))
        refused += any("refuse" in line for line in program.text) if program else 0
    print(f"{count} programs, seed {seed}: {different} differ; in {refused} both refuse a step")
    return different
