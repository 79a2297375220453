"""Random scripts that both packages run: views, writes with and without recording, gradients in between."""
import random

import torch

from comparing import close, numbers
from samples import COMPLEX, weights

ERRORS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)
DTYPES = ["float64", "float64", "float32", "bfloat16", "complex128", "int64"]


class Difference(Exception):
    """What the two libraries gave."""


class Ended(Exception):
    """The rest differs on purpose."""


class Script:
    """Tensors of both libraries that steps make and change, and the text of the steps."""

    def __init__(self, rng, library):
        self.rng, self.libraries, self.text, self.tensors = rng, (library, torch), [], []
        self.dtype = rng.choice(DTYPES)
        self.grads = self.dtype != "int64" and rng.random() < 0.8
        self.leaves = [self.leaf() for _ in range(rng.choice([1, 1, 2]))]

    def leaf(self):
        sizes = [self.rng.randint(1, 4) for _ in range(self.rng.choice([1, 2, 2, 3]))]
        count = torch.Size(sizes).numel()
        drawn = [self.rng.randint(-4, 4) if self.dtype == "int64" else self.rng.uniform(-2, 2) for _ in range(count)]
        if self.dtype in COMPLEX:
            drawn = [complex(x, self.rng.uniform(-2, 2)) for x in drawn]
        self.text.append(f"t{len(self.tensors)} = tensor({drawn}, {self.dtype}).view({sizes})")
        self.tensors.append([library.tensor(drawn, dtype=getattr(library, self.dtype)).view(sizes).clone()
                             .requires_grad_(self.grads) for library in self.libraries])
        return self.tensors[-1]

    def step(self, text, function, *operands):
        """Runs a step on both sides; what it returns, unless nothing, is a new tensor."""
        self.text.append(f"t{len(self.tensors)} = {text}  # of {', '.join(f't{i}' for i in operands)}")
        results, errors = [], []
        for side, library in enumerate(self.libraries):
            try:
                results.append(function(library, *[self.tensors[i][side] for i in operands]))
                errors.append("")
            except ERRORS as error:
                errors.append(f"{type(error).__name__}: {error}".split("\n")[0])
        check_errors(*errors)
        if errors[0]:
            self.text[-1] += ": both refuse"
        elif results[1] is not None:
            self.tensors.append(results)


# What PyTorch refuses and Tensora does, and the other way round.
ONLY_PYTORCH = ("modified by an inplace operation", "returns multiple views", "is a view and is being modified inplace",
                "unsupported operation", "a leaf Variable", "no_grad mode", "can't detach views in-place", "detached in-place", "INTERNAL ASSERT",
                "Expected isFloatingType(grad", "returned an invalid gradient", "doesn't match the broadcast shape")
ONLY_TENSORA = ("share one memory location", "sizes were changed in place since", "does not fit in place", "cannot change its sizes in place",
                "a view cannot be detached in place", "is a view that was taken under no_grad")


def check_errors(ours, theirs):
    if bool(ours) == bool(theirs):
        return
    if not ours and any(words in theirs for words in ONLY_PYTORCH) or any(words in ours for words in ONLY_TENSORA):
        raise Ended
    raise Difference(ours or "no error", theirs or "no error")


# What neither library can differentiate afterwards, if it was not recorded.
OF_SIZES = ("t_()", "unsqueeze_(0)", "squeeze_()")


def viewed(rng, sizes, dtype):
    """A view: its text, and the function."""
    rank = len(sizes)
    d = rng.randrange(rank) if rank else 0
    other = rng.randrange(rank) if rank else 0
    size = sizes[d] if rank else 1
    i, half = rng.randrange(size) if size else 0, rng.randint(1, max(size, 1))
    choices = {
        "view(-1)": lambda _, x: x.view(-1), "unsqueeze(0)": lambda _, x: x.unsqueeze(0),
        "detach()": lambda _, x: x.detach(), "expand": lambda _, x: x.expand(2, *sizes),
        "reshape(-1)": lambda _, x: x.reshape(-1), "view_as(x)": lambda _, x: x.view_as(x),
    }
    if rank:
        choices.update({
            f"select({d}, {i})": lambda _, x: x.select(d, i),
            f"narrow({d}, {i}, 1)": lambda _, x: x.narrow(d, i, 1),
            f"[{i}:: 2] of dim {d}": lambda _, x: x[(slice(None),) * d + (slice(i, None, 2),)],
            f"transpose({d}, {other})": lambda _, x: x.transpose(d, other),
            f"squeeze({d})": lambda _, x: x.squeeze(d), f"unfold({d}, {half}, 1)": lambda _, x: x.unfold(d, half, 1),
            f"split({half}, {d})[0]": lambda _, x: x.split(half, d)[0],
            f"unbind({d})[0]": lambda _, x: x.unbind(d)[0], f"movedim({d}, {other})": lambda _, x: x.movedim(d, other),
            "flatten()": lambda _, x: x.flatten(), f"chunk(2, {d})[-1]": lambda _, x: x.chunk(2, d)[-1],
        })
    if rank > 1:
        choices["diagonal()"] = lambda _, x: x.diagonal()
    if dtype in COMPLEX:
        choices["real"], choices["imag"] = lambda _, x: x.real, lambda _, x: x.imag
    return rng.choice(list(choices.items()))


def written(rng, sizes, real):
    """A write of one tensor, or of one with another."""
    rank = len(sizes)
    d, value = rng.randrange(rank) if rank else 0, rng.choice([0, 1, -2])
    count = sizes[d] if rank else 1
    places = [rng.randrange(count) for _ in range(rng.randint(1, 2))] if count else []
    alone = {
        "neg_()": lambda _, x: x.neg_(), f"fill_({value})": lambda _, x: x.fill_(value), "zero_()": lambda _, x: x.zero_(),
        f"mul_({value})": lambda _, x: x.mul_(value), f"add_({value})": lambda _, x: x.add_(value),
        "square_()": lambda _, x: x.square_(), "t_()": lambda _, x: x.t_(), "unsqueeze_(0)": lambda _, x: x.unsqueeze_(0),
        "detach_()": lambda _, x: x.detach_(),
        "requires_grad_()": lambda _, x: x.requires_grad_() if x.requires_grad else None,
        f"[...] = {value}": lambda _, x: x.__setitem__(..., value),
    }
    if rank:
        alone.update({
            f"[{places}] = {value}": lambda lib, x: x.__setitem__(lib.tensor(places), value) if d == 0 else None,
            f"index_fill_({d}, {places})": lambda lib, x: x.index_fill_(d, lib.tensor(places, dtype=lib.int64), value),
            f"cumsum_({d})": lambda _, x: x.cumsum_(d), "squeeze_()": lambda _, x: x.squeeze_(),
            f"select({d}, 0).mul_(3)": lambda _, x: x.select(d, 0).mul_(3),
        })
    if rank > 1:
        alone["tril_()"] = lambda _, x: x.tril_()
    if real:
        alone.update({"relu_()": lambda _, x: x.relu_(), "clamp_(-1, 1)": lambda _, x: x.clamp_(-1, 1),
                      "masked_fill_(x > 0)": lambda _, x: x.masked_fill_(x > 0, value),
                      "sign_()": lambda _, x: x.sign_()})
    both = {
        "add_": lambda _, x, y: x.add_(y), "mul_": lambda _, x, y: x.mul_(y), "copy_": lambda _, x, y: x.copy_(y),
        "sub_": lambda _, x, y: x.sub_(y, alpha=2), "addcmul_": lambda _, x, y: x.addcmul_(y, y),
        "[...] = y": lambda _, x, y: x.__setitem__(..., y),
        "[0] = y": lambda _, x, y: x.__setitem__(0, y),
    }
    return rng.choice(list(alone.items())), rng.choice(list(both.items()))


def computed(rng, sizes, real):
    rank = len(sizes)
    d = rng.randrange(rank) if rank else 0
    alone = {"clone()": lambda _, x: x.clone(), "sum()": lambda _, x: x.sum(), "* 2": lambda _, x: x * 2,
             "x * x": lambda _, x: x * x, "contiguous()": lambda _, x: x.contiguous()}
    if rank:
        alone.update({f"sum({d})": lambda _, x: x.sum(d), f"flip({d})": lambda _, x: x.flip(d),
                      f"cumsum({d})": lambda _, x: x.cumsum(d), f"prod({d})": lambda _, x: x.prod(d),
                      f"cat({d})": lambda lib, x: lib.cat([x, x], d), f"roll(1, {d})": lambda _, x: x.roll(1, d)})
        if real:
            alone.update({f"amax({d})": lambda _, x: x.amax(d), f"max({d})[0]": lambda _, x: x.max(d)[0],
                          f"sort({d})[0]": lambda _, x: x.sort(dim=d, stable=True)[0]})
    both = {"add": lambda _, x, y: x + y, "mul": lambda _, x, y: x * y, "stack": lambda lib, x, y: lib.stack([x, y]),
            "sub": lambda _, x, y: x - y}
    if real:
        both["where"] = lambda lib, x, y: lib.where(x > y, x, y)
    return rng.choice(list(alone.items())), rng.choice(list(both.items()))


def overlap(script, a, b):
    first, second = script.tensors[a][1], script.tensors[b][1]
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def unrecorded(function):
    def run(library, *tensors):
        with library.no_grad():
            return function(library, *tensors)
    return run


def one_step(script):
    rng, number = script.rng, script.rng.randrange(len(script.tensors))
    other = rng.randrange(len(script.tensors))
    theirs = script.tensors[number][1]
    sizes, real = list(theirs.shape), not theirs.is_complex()
    if theirs.numel() > 200 or bool((theirs.detach().abs() > 1e4).any()):
        return
    kind = rng.random()
    if kind < 0.4:
        text, function = viewed(rng, sizes, str(theirs.dtype)[6:])
        operands = [number]
    elif kind < 0.75:
        alone, both = written(rng, sizes, real)
        (text, function), operands = (alone, [number]) if rng.random() < 0.6 or overlap(script, number, other) \
            else (both, [number, other])
    else:
        alone, both = computed(rng, sizes, real)
        (text, function), operands = (alone, [number]) if rng.random() < 0.5 else (both, [number, other])
    # Whether the views of a tensor that is detached keep its history depends on what is written next.
    if text == "detach_()" and any(overlap(script, number, k) for k in range(len(script.tensors)) if k != number):
        return
    # Of a view taken under no_grad PyTorch says that it requires grad, if its base does.
    quiet = kind >= 0.4 and rng.random() < 0.15 and text not in OF_SIZES
    run = unrecorded(function) if quiet else function
    # What a write returns is the tensor itself.
    script.step(text + (" under no_grad" if quiet else ""),
                (lambda *a: (run(*a), None)[1]) if 0.4 <= kind < 0.75 else run, *operands)


def compare(ours, theirs, what):
    """Raises if the tensors differ."""
    dtype = str(theirs.dtype)[6:]
    a = (str(ours.dtype)[6:], tuple(ours.shape), ours.requires_grad, ours.is_leaf)
    b = (dtype, tuple(theirs.shape), theirs.requires_grad, theirs.is_leaf)
    if a != b:
        raise Difference(f"{what} {a}", b)
    x, y = ours.detach().reshape(-1).tolist(), numbers(theirs)
    if not all(close(p, q, dtype, True) for p, q in zip(x, y)):
        raise Difference(f"{what} {x}", y)


def finish(script):
    """Compares all tensors, then the leaves' gradients of the weighted sums of the last ones."""
    for number, pair in enumerate(script.tensors):
        compare(*pair, f"t{number}")
    leaves = [leaf for leaf in script.leaves if leaf[1].requires_grad and leaf[1].is_leaf]
    totals = []
    for side, library in enumerate(script.libraries):
        parts = [(x * library.tensor(weights(x.numel()), dtype=x.dtype).reshape(x.shape)).sum().to(
            library.complex128 if script.dtype in COMPLEX else library.float64)
                 for x in (pair[side] for pair in script.tensors[-4:]) if x.requires_grad]
        total = sum(parts[1:], parts[0]) if parts else None
        totals.append(total.real if total is not None and total.is_complex() else total)
    if totals[1] is None or not leaves:
        return
    for again in (True, False):
        errors, found = [], []
        for side, library in enumerate(script.libraries):
            try:
                found.append(library.autograd.grad(totals[side], [leaf[side] for leaf in leaves], allow_unused=True,
                                                   create_graph=again))
                errors.append("")
            except ERRORS as error:
                errors.append(f"{type(error).__name__}: {error}".split("\n")[0])
        check_errors(*errors)
        for a, b in zip(*found) if not errors[0] else []:
            if a is None or b is None:
                given = b if a is None else a
                if given is not None and bool((given != 0).any()):
                    raise Difference(f"gradient {a}", str(b))
            else:
                compare(a.detach(), b.detach(), "gradient")


def attempt(script):
    try:
        for _ in range(script.rng.randint(2, 12)):
            one_step(script)
        finish(script)
    except RuntimeError as error:
        # A view may refuse even to be looked at.
        check_errors(*((str(error), "") if any(words in str(error) for words in ONLY_TENSORA) else ("", str(error))))


def run(count, seed, show):
    """Runs that many scripts; returns how many differ."""
    try:
        import tensora
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 0
    different = ended = 0
    for number in range(count):
        script = Script(random.Random(seed * 1_000_003 + number), tensora)
        try:
            attempt(script)
        except Ended:
            ended += 1
        except Difference as found:
            different += 1
            if different <= show:
                print(f"--- script {number}: tensora {found.args[0]}\n    pytorch {found.args[1]}")
                print("\n".join("    " + line for line in script.text))
    print(f"{count} scripts, seed {seed}: {different} differ, {ended} end where the two differ on purpose")
    return different
