"""Random calls of the Python package's functions, which are spelled as PyTorch's are."""
import cmath
import functools
import random

import torch

from composed_calls import COMPOSED
from comparing import DIGITS, close, is_rounding, numbers, size
from known import of_function, of_mistake
from mistakes import mistaken
from samples import COMPLEX, FLOATS, INTEGERS, VIEWS, layout, shape, values, weights

ERRORS = (RuntimeError, IndexError, TypeError, ValueError, MemoryError, OverflowError, NotImplementedError,
          AssertionError, ZeroDivisionError)
LISTED = 1_000_000  # The elements of more, of an expanded tensor, would fill the memory.
ENDLESS = {"combinations", "matrix_power", "linalg.matrix_power"}  # in PyTorch, of huge numbers
SEARCHES = {"minimized"}  # Rounding decides which way they go.


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

    def nudged(self):
        """PyTorch's leaf with other last digits, and what views make of it."""
        leaf = self.their_leaf.detach().clone()
        parts = torch.view_as_real(leaf) if leaf.is_complex() else leaf
        if parts.is_floating_point():
            change = (torch.rand(parts.shape, dtype=torch.float64) - 0.5) * 4 * torch.finfo(parts.dtype).eps
            parts.copy_(parts.double() * (1 + change) + (parts == 0) * change)
        leaf.requires_grad_(self.grad)
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

    def scaled(self, *sizes):
        """All elements tiny or large."""
        drawn = torch.tensor([self.rng.uniform(-4, 4) for _ in range(torch.Size(sizes).numel())], dtype=torch.float64)
        return self.of((drawn * self.pick(1, 1, 1e-3, 1e3)).to(getattr(torch, self.dtype)).view(sizes), True)

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
        self.op, self.composed = short, name in COMPOSED

    def run(self, library, change):
        arguments, options = mapped(self.arguments, change), mapped(self.options, change)
        if self.inplace:
            arguments = (arguments[0].clone(), *arguments[1:])
        return results_of(located(library, self.name)(*arguments, **options))

    def is_calm(self):
        return all(not x.theirs.is_floating_point() or bool((x.theirs.abs() < 1e10).all()) for x in self.inputs)

    @property
    def text(self):
        return f"{self.name}{mapped(self.arguments, lambda p: p.text)} {mapped(self.options, lambda p: p.text)}"


def shared(results, tensors):
    """Which results lie in the memory of an argument."""
    places = {x.untyped_storage().data_ptr() for x in tensors if x.numel()}
    return [hasattr(y, "untyped_storage") and y.numel() > 0 and y.untyped_storage().data_ptr() in places
            for y in results]


def outcome(function):
    try:
        return function(), ""
    except ERRORS as error:
        return None, f"{type(error).__name__}: {error}".split("\n")[0]


def elements(tensor):
    return tensor.detach().reshape(-1).tolist()


def coarsest(call, dtype):
    """The dtype with the fewest digits among a gradient's and the operands', in which it may have been computed."""
    return max([dtype, *(str(x.theirs.dtype)[6:] for x in call.inputs)], key=lambda name: DIGITS.get(name, 0))


def compare_results(ours, theirs, right, call=None):
    """What differs between a tensor or a number of ours and PyTorch's; `call`: if they are its gradients."""
    if not isinstance(theirs, torch.Tensor):
        same = ours == theirs or isinstance(theirs, float) and close(ours, theirs, "float32", True)
        return None if same or not isinstance(theirs, (bool, int, float)) else ("value", ours, theirs)
    dtype = str(theirs.dtype)[6:]
    if (str(ours.dtype)[6:], tuple(ours.shape)) != (dtype, tuple(theirs.shape)):
        return "type", f"{ours.dtype} {tuple(ours.shape)}", f"{dtype} {tuple(theirs.shape)}"
    if theirs.numel() > LISTED:
        return None
    a, b = elements(ours), numbers(theirs)
    dtype = coarsest(call, dtype) if call else dtype
    if all(close(x, y, dtype, True) for x, y in zip(a, b)):
        return None
    return None if right is not None and is_rounding(a, b, right, dtype) else ("value", a, b)


def seed_of(library, tensor):
    """Weights of a tensor's elements, exact in its dtype."""
    numbers = [w * (1 - 2j) if tensor.is_complex() else w for w in weights(tensor.numel())]
    return library.tensor(numbers, dtype=tensor.dtype).reshape(tensor.shape)


def slopes(library, outputs, leaves, twice):
    """The leaves' gradients of the weighted outputs; `twice`: those of the weighted gradients."""
    found = library.autograd.grad(outputs, leaves, [seed_of(library, y) for y in outputs], allow_unused=True,
                                  create_graph=twice)
    kept = [g for g in found if g is not None and g.requires_grad]
    if not twice or not kept:
        return [None] * len(leaves) if twice else found
    return library.autograd.grad(kept, leaves, [seed_of(library, g) for g in kept], allow_unused=True,
                                 retain_graph=True)


def gradients(call, ours, theirs, wide, twice):
    """The first difference of the leaves' gradients, or nothing."""
    outputs = [triple for triple in zip(ours, theirs, wide[1])
               if isinstance(triple[1], torch.Tensor) and triple[1].requires_grad]
    leaves = [(pair, leaf) for pair, leaf in zip(call.inputs, wide[0]) if pair.grad]
    if not leaves or not outputs or any(y.numel() > LISTED for y in theirs if isinstance(y, torch.Tensor)):
        return None
    a, b, w = map(list, zip(*outputs))
    expected, their_error = outcome(lambda: slopes(torch, b, [p.their_leaf for p, _ in leaves], twice))
    found, our_error = outcome(lambda: slopes(call.library, a, [p.leaf for p, _ in leaves], twice))
    what = "second gradient" if twice else "gradient"
    if bool(our_error) != bool(their_error):
        return what + " raise", our_error or "no error", their_error or "no error"
    known = all(isinstance(y, torch.Tensor) for y in w)
    right = outcome(lambda: slopes(torch, w, [leaf for _, leaf in leaves], twice))[0] if known else None
    for place, (a, b, w) in enumerate(zip(found or [], expected or [], right or [None] * len(leaves))):
        if b is None or a is None:
            given = a if b is None else b
            if given is not None and not all(close(x, 0.0, str(given.dtype).split(".")[1], True)
                                             for x in (numbers(b) if a is None else elements(a))):
                return what, None if a is None else elements(a), None if b is None else numbers(b)
            continue
        if difference := compare_results(a, b, w, call):
            if twice and difference[0] == "value" and is_unsteady(call, place, *difference[1:], w):
                continue
            return f"{what} {difference[0]}", *difference[1:]
    return None


def changed(call, pairs):
    """Other leaves of PyTorch's, and its results for them."""
    order = iter([tensor for _, tensor in pairs])
    results = outcome(lambda: call.run(torch, lambda _: next(order)))[0]
    return [leaf for leaf, _ in pairs], results


def is_unsteady(call, place, ours, theirs, right):
    """Whether last digits of the inputs change PyTorch's results as much as ours differ from them: those of second
    order are nobody's where the function has a kink or a pole, nor where PyTorch's overflow and those in float64,
    `right`, do not. `place`: of the leaf, or of a result (None)."""
    runs = []
    torch.manual_seed(0)
    for _ in range(12):
        leaves, results = changed(call, [pair.nudged() for pair in call.inputs])
        if results is not None and place is not None:
            outputs = [y for y in results if isinstance(y, torch.Tensor) and y.requires_grad]
            wanted = [leaf for pair, leaf in zip(call.inputs, leaves) if pair.grad]
            results = outcome(lambda: slopes(torch, outputs, wanted, True))[0]
        found = results and (results[place] if place is not None else next(
            (y for y in results if isinstance(y, torch.Tensor) and y.numel() == len(ours)), None))
        if found is not None:
            runs.append(numbers(found))
    exact = numbers(right) if right is not None else theirs
    for at, (x, y) in enumerate(zip(ours, theirs)):
        others = [run[at] for run in runs]
        if not cmath.isfinite(y) and cmath.isfinite(exact[at]):
            continue
        if all(map(cmath.isfinite, [x, y, *others])):
            if size(x - y) > 4 * max((size(other - y) for other in others), default=0) and not close(
                    x, y, str(call.inputs[0].theirs.dtype)[6:], True):
                return False
        elif not (x == y or x != x and y != y) and all(other == y or other != other and y != y for other in others):
            return False
    return True


def compare(call, twice):
    ours, our_error = outcome(lambda: call.run(call.library, lambda pair: pair.ours))
    theirs, their_error = outcome(lambda: call.run(torch, lambda pair: pair.theirs))
    if bool(our_error) != bool(their_error):
        return "raise", our_error or "no error", their_error or "no error"
    if our_error:
        return None
    if len(ours) != len(theirs):
        return "count", len(ours), len(theirs)
    if not call.composed and (a := shared(ours, [x.ours for x in call.inputs])) != (
            b := shared(theirs, [x.theirs for x in call.inputs])):
        return "memory", a, b
    leaves, right = changed(call, [pair.wide() for pair in call.inputs])
    if right is None or len(right) != len(theirs):
        right = [None] * len(theirs)
    for a, b, w in zip(ours, theirs, right):
        if isinstance(b, torch.Tensor) and a.requires_grad != b.requires_grad:
            return "requires_grad", a.requires_grad, b.requires_grad
        if difference := compare_results(a, b, w):
            if call.op in SEARCHES and is_unsteady(call, None, *difference[1:], w):
                return None
            return difference
    # Those of second order come first, and keep the graph; at special values they are nobody's.
    return (gradients(call, ours, theirs, (leaves, right), True) if twice and call.is_calm() else None) or \
        gradients(call, ours, theirs, (leaves, right), False)


def drawn(rng, library, calls, name, mistakes):
    d = Draw(rng, library)
    arguments, options = calls[name](d)
    if mistakes:
        arguments, options = mistaken(d, arguments, options)
    return Call(library, name.split(":")[0], rng, arguments, options)


def run(count, seed, show, only, mistakes):
    """Makes that many calls; returns how many differ."""
    try:
        import tensora
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 0
    from function_calls import CALLS
    names = [name for name in CALLS if (not only or name in only) and not (mistakes and (name in COMPOSED or name in ENDLESS))]
    findings, meant = {}, 0
    for number in range(count):
        rng = random.Random(seed * 1_000_003 + number)
        name = rng.choice(names)
        call = drawn(rng, tensora, CALLS, name, mistakes)
        difference = compare(call, rng.random() < 0.3)
        if difference is None:
            continue
        said = (difference[0], str(difference[1]), str(difference[2]))
        if of_function(call, *said) or mistakes and of_mistake(call, *said):
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
