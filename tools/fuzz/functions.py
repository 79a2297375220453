"""Random calls of the Python package's functions, which are spelled as PyTorch's are."""
import functools
import random

import torch

from composed_calls import COMPOSED
from comparing import close, is_rounding, numbers
from known import of_function
from samples import COMPLEX, FLOATS, INTEGERS, VIEWS, layout, shape, values, weights

ERRORS = (RuntimeError, IndexError, TypeError, ValueError, MemoryError, OverflowError, NotImplementedError)


class Pair:
    """A tensor of both libraries: leaves, and what views make of them."""

    def __init__(self, library, theirs, views, grad, text):
        self.leaf, self.their_leaf = copied(library, theirs, grad), theirs.clone().requires_grad_(grad)
        self.views, self.grad, self.text = views, grad, text
        self.ours, self.theirs = views(self.leaf), views(self.their_leaf)

    def wide(self):
        """PyTorch's leaf with the same numbers in float64, and what views make of it."""
        inexact = {torch.complex64: torch.complex128, torch.complex128: torch.complex128}
        kept = inexact.get(self.their_leaf.dtype, torch.float64 if self.their_leaf.is_floating_point() else None)
        leaf = self.their_leaf.detach().to(kept or self.their_leaf.dtype).clone().requires_grad_(self.grad)
        return leaf, self.views(leaf)


def copied(library, theirs, grad=False):
    """A leaf of ours with the elements of PyTorch's tensor."""
    dtype = getattr(library, str(theirs.dtype)[6:])
    return library.tensor(numbers(theirs), dtype=dtype).reshape(theirs.shape).detach().requires_grad_(grad)


class Draw:
    """Draws the arguments of a call; what a table's line gets."""

    def __init__(self, rng, library):
        self.rng, self.library = rng, library
        self.dtype = rng.choice(["float32", "float32", "float64", "float64", "float16", "bfloat16"])

    def __call__(self, *arguments, **options):
        return arguments, {key: value for key, value in options.items() if value is not ...}

    def x(self, *sizes, dtype=None, grad=True, calm=True, varied=True):
        """A tensor; of the call's dtype unless told otherwise."""
        rng, dtype = self.rng, dtype or self.dtype
        steps, stored = layout(rng, list(sizes)) if varied else ([], list(sizes))
        count = torch.Size(stored).numel()
        drawn = values(rng, COMPLEX.get(dtype, dtype), 2 * count if dtype in COMPLEX else count,
                       calm or dtype in COMPLEX)
        if dtype in COMPLEX:
            drawn = [complex(*pair) for pair in zip(drawn[::2], drawn[1::2])]
        elif calm and dtype in INTEGERS:
            drawn = [rng.randint(0 if dtype == "uint8" else -4, 5) for _ in range(count)]
        theirs = torch.tensor(drawn, dtype=getattr(torch, dtype)).view(stored)
        text = f"tensor({drawn}, {dtype}).view({stored})" + "".join(f".{n}({a})" for n, a in steps)
        return Pair(self.library, theirs, views_of(steps), grad and (dtype in FLOATS or dtype in COMPLEX) and
                    rng.random() < 0.7, text)

    def of(self, theirs, grad=False):
        """A given tensor of PyTorch."""
        return Pair(self.library, theirs, lambda leaf: leaf, grad and theirs.is_floating_point(),
                    f"tensor({theirs.tolist()}, {str(theirs.dtype)[6:]})")

    def any(self, dims=None, dtypes=None, calm=False):
        """A tensor of any shape and any dtype."""
        return self.x(*shape(self.rng, dims), dtype=self.rng.choice(dtypes or ["bool", *INTEGERS, *FLOATS]),
                      calm=calm)

    def ints(self, *sizes, below, least=0, dtype=torch.int64):
        count = torch.Size(sizes).numel()
        return self.of(torch.tensor([self.rng.randrange(least, below) for _ in range(count)],
                                    dtype=dtype).view(sizes))

    def positive(self, *sizes, dtype=None, grad=True):
        count = torch.Size(sizes).numel()
        return self.of(torch.tensor([self.rng.uniform(0.1, 4) for _ in range(count)],
                                    dtype=getattr(torch, dtype or self.dtype)).view(sizes), grad)

    def distinct(self, *sizes, grad=True):
        """No two elements alike, so that their order is certain."""
        count = torch.Size(sizes).numel()
        return self.of(torch.tensor(self.rng.sample(range(-2 * count, 2 * count + 1), count),
                                    dtype=getattr(torch, self.dtype)).view(sizes), grad)

    def spd(self, *sizes):
        """Symmetric matrices with positive eigenvalues."""
        root = torch.tensor(values(self.rng, "float64", torch.Size(sizes).numel(), True)).view(sizes)
        return self.of((root @ root.mT + 3 * torch.eye(sizes[-1])).to(getattr(torch, self.dtype)), True)

    def sizes(self, dims=None):
        return shape(self.rng, dims)

    def pick(self, *choices):
        return self.rng.choice(choices)

    def flag(self):
        return self.rng.random() < 0.5

    def single(self):
        """For calls that PyTorch must prepare and cannot in half types."""
        self.dtype = self.rng.choice(["float32", "float64"])
        return self

    def dim(self, rank):
        if self.rng.random() < 0.03:
            return self.rng.choice([rank, -rank - 1, rank + 3])
        return self.rng.randrange(-rank, rank) if rank else self.rng.choice([0, -1])

    def dims(self, rank, least=0):
        return [d - self.pick(0, rank) for d in self.rng.sample(range(rank),
                                                                self.rng.randint(min(least, rank), rank))]


def views_of(steps):
    def views(leaf):
        for name, arguments in steps:
            leaf = VIEWS[name](leaf, arguments)
        return leaf
    return views


def mapped(value, change):
    """A structure of arguments with its pairs replaced."""
    if isinstance(value, Pair):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(v, change) for v in value)
    return {k: mapped(v, change) for k, v in value.items()} if isinstance(value, dict) else value


def pairs_in(value, found):
    mapped(value, lambda pair: found.append(pair))
    return found


def results_of(value):
    """The tensors and numbers of a result, in one list."""
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in results_of(v)]
    return [value]


def located(library, name):
    if name in COMPOSED:
        return functools.partial(COMPOSED[name], library)
    for part in name.split("."):
        library = getattr(library, part)
    return library


class Call:
    """A function, a method or an in-place method with its arguments."""

    def __init__(self, library, name, rng, arguments, options):
        self.library, self.name, self.arguments, self.options = library, name, arguments, options
        self.inputs = pairs_in((arguments, options), [])
        self.inplace, short = False, name.split(".")[-1]
        if "." not in name and arguments and isinstance(arguments[0], Pair):
            forms = [f"Tensor.{form}" for form in (short, short + "_")
                     if hasattr(torch.Tensor, form) and hasattr(library.Tensor, form)]
            if forms and rng.random() < 0.4:
                self.name = rng.choice(forms)
                self.inplace = self.name.endswith("_")
        self.op = short

    def run(self, library, change):
        arguments, options = mapped(self.arguments, change), mapped(self.options, change)
        if self.inplace:
            arguments = (arguments[0].clone(), *arguments[1:])
        return results_of(located(library, self.name)(*arguments, **options))

    @property
    def text(self):
        return f"{self.name}{mapped(self.arguments, lambda p: p.text)} {mapped(self.options, lambda p: p.text)}"


def outcome(function):
    try:
        return function(), ""
    except ERRORS as error:
        return None, f"{type(error).__name__}: {error}".split("\n")[0]


def elements(tensor):
    return tensor.detach().reshape(-1).tolist()


def compare_results(ours, theirs, right):
    """What differs between a tensor or a number of ours and PyTorch's."""
    if not isinstance(theirs, torch.Tensor):
        same = ours == theirs or isinstance(theirs, float) and close(ours, theirs, "float32", True)
        return None if same or not isinstance(theirs, (bool, int, float)) else ("value", ours, theirs)
    dtype = str(theirs.dtype)[6:]
    if (str(ours.dtype)[8:], tuple(ours.shape)) != (dtype, tuple(theirs.shape)):
        return "type", f"{ours.dtype} {tuple(ours.shape)}", f"{dtype} {tuple(theirs.shape)}"
    a, b = elements(ours), numbers(theirs)
    if all(close(x, y, dtype, True) for x, y in zip(a, b)):
        return None
    return None if right is not None and is_rounding(a, b, right, dtype) else ("value", a, b)


def seed_of(theirs):
    seed = torch.tensor(weights(theirs.numel()), dtype=torch.float64).view(theirs.shape)
    return (seed * (1 - 2j) if theirs.is_complex() else seed).to(theirs.dtype)


def gradients(call, ours, theirs, wide):
    """The first difference of the leaves' gradients, or nothing."""
    outputs = [(a, b, w) for a, b, w in zip(ours, theirs, wide[1]) if isinstance(b, torch.Tensor) and b.requires_grad]
    leaves = [pair for pair in call.inputs if pair.grad]
    if not leaves or not outputs:
        return None
    seeds = [seed_of(b) for _, b, _ in outputs]
    expected, their_error = outcome(lambda: torch.autograd.grad(
        [b for _, b, _ in outputs], [p.their_leaf for p in leaves], seeds, allow_unused=True))
    library = call.library
    found, our_error = outcome(lambda: library.autograd.grad(
        [a for a, _, _ in outputs], [p.leaf for p in leaves], [copied(library, s) for s in seeds], allow_unused=True))
    if bool(our_error) != bool(their_error):
        return "gradient raise", our_error or "no error", their_error or "no error"
    right = outcome(lambda: torch.autograd.grad([w for _, _, w in outputs],
                                                [leaf for leaf, p in zip(wide[0], call.inputs)
                    if p.grad], [seed_of(w) for _, _, w in outputs], allow_unused=True))[0] or [None] * len(leaves)
    for a, b, w in zip(found or [], expected or [], right):
        if b is None or a is None:
            given = a if b is None else b
            if given is not None and bool((given != 0).any()):
                return "gradient", None if a is None else elements(a), None if b is None else numbers(b)
            continue
        if difference := compare_results(a, b, w):
            return "gradient " + difference[0], *difference[1:]
    return None


def widened(call):
    """The leaves in float64, and PyTorch's results for them."""
    pairs = [pair.wide() for pair in call.inputs]
    order = iter([tensor for _, tensor in pairs])
    results = outcome(lambda: call.run(torch, lambda _: next(order)))[0]
    return [leaf for leaf, _ in pairs], results


def compare(call):
    ours, our_error = outcome(lambda: call.run(call.library, lambda pair: pair.ours))
    theirs, their_error = outcome(lambda: call.run(torch, lambda pair: pair.theirs))
    if bool(our_error) != bool(their_error):
        return "raise", our_error or "no error", their_error or "no error"
    if our_error:
        return None
    if len(ours) != len(theirs):
        return "count", len(ours), len(theirs)
    leaves, right = widened(call)
    if right is None or len(right) != len(theirs):
        right = [None] * len(theirs)
    for a, b, w in zip(ours, theirs, right):
        if isinstance(b, torch.Tensor) and a.requires_grad != b.requires_grad:
            return "requires_grad", a.requires_grad, b.requires_grad
        if difference := compare_results(a, b, w):
            return difference
    return gradients(call, ours, theirs, (leaves, right))


def run(count, seed, show, only):
    """Makes that many calls; returns how many differ."""
    try:
        import tensora
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 0
    from function_calls import CALLS
    names = [name for name in CALLS if not only or name in only]
    findings, meant = {}, 0
    for number in range(count):
        rng = random.Random(seed * 1_000_003 + number)
        name = rng.choice(names)
        arguments, options = CALLS[name](Draw(rng, tensora))
        call = Call(tensora, name.split(":")[0], rng, arguments, options)
        difference = compare(call)
        if difference is None:
            continue
        if of_function(call, difference[0], str(difference[1]), str(difference[2])):
            meant += 1
            continue
        seen = findings.setdefault((name, difference[0]), [0])
        seen[0] += 1
        if seen[0] <= show:
            print(f"--- {call.text}: {difference[0]}\n  tensora {difference[1]}\n  pytorch {difference[2]}")
    print(f"{count} calls of {len(names)} functions, seed {seed}: "
          f"{sum(seen[0] for seen in findings.values())} differ, {meant} more on purpose")
    for (name, kind), seen in sorted(findings.items()):
        print(f"  {seen[0]:6} {name} {kind}")
    return len(findings)
