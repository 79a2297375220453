#!/usr/bin/env python3
"""The op suite's mode `vmap`: vmap of every op of the Python package beside a loop over the elements.

vmap is Python's (tensora.func), so this mode is too. The ops and their arguments follow from the declarations
(signatures.json); samples are tried until the op accepts some. Each sample runs with its tensors batched at dim 0, at dim 1
and not at all, and with gradients. An op without samples here must be named in vmap_samples.py, with the reason.

    TENSORA_PYTHON=build/python tests/suite/vmap_mode.py build/generated/python/signatures.json [--filter OP,...] [--list]
"""
import argparse
import itertools
import json
import operator
import os
import pathlib
import sys
import time
import warnings

if built := os.environ.get("TENSORA_PYTHON"):
    sys.path.insert(0, built)
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tensora  # noqa: E402
import vmap_samples  # noqa: E402
from tensora import _C  # noqa: E402

BATCH = 3
ERRORS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError, OverflowError)


_MODULES = {"F": tensora.nn.functional, "operator": operator}


class Place:
    """Where a tensor of a sample belongs."""

    def __init__(self, at):
        self.at = at


def taken(value, found):
    """The value with its tensors replaced by places in `found`."""
    if isinstance(value, tensora.Tensor):
        found.append(value)
        return Place(len(found) - 1)
    if isinstance(value, (list, tuple)):
        return type(value)(taken(v, found) for v in value)
    return {k: taken(v, found) for k, v in value.items()} if isinstance(value, dict) else value


def filled(form, tensors):
    if isinstance(form, Place):
        return tensors[form.at]
    if isinstance(form, (list, tuple)):
        return type(form)(filled(v, tensors) for v in form)
    return {k: filled(v, tensors) for k, v in form.items()} if isinstance(form, dict) else form


def flat(value):
    if isinstance(value, tensora.Tensor):
        return [value]
    return [t for v in value for t in flat(v)] if isinstance(value, (list, tuple)) else []


def function_of(name):
    first, _, rest = name.partition(".")
    if first in _MODULES:
        return getattr(_MODULES[first], rest)
    place = _C
    for part in name.split("."):
        place = getattr(place, part, None)
    return place if callable(place) else getattr(tensora.Tensor, name, None)  # bfloat16 is a dtype, too


def is_in_place(name):
    return name == "operator.setitem" or name.endswith("_") and not name.endswith("__")


class Sample:
    """One call of an op: a function of tensors, and these."""

    def __init__(self, name, arguments, keywords):
        self.tensors = []
        form = taken((arguments, keywords), self.tensors)
        function, in_place = function_of(name), is_in_place(name)

        def run(*tensors):
            arguments, keywords = filled(form, tensors)
            if not in_place:
                return tuple(flat(function(*arguments, **keywords)))
            target = arguments[0].clone()
            function(target, *arguments[1:], **keywords)
            return (target,)
        self.run = run

    def elements(self):
        """For each tensor, as many as a batch has."""
        return [variants(t) for t in self.tensors]


def variants(tensor):
    """Other values of the same domain: of floating ones smaller numbers, of others another order."""
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return [tensor, tensor * 0.75, tensor * 0.5]
    if tensor.dim() == 0:
        return [tensor, tensor.clone(), tensor.clone()]
    return [tensor, tensor.flip(0), tensor.flip(-1)]


def difference(found, expected):
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    for a, b in zip(found, expected):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {list(a.shape)} instead of {b.dtype} {list(b.shape)}"
        tolerance = vmap_samples.TOLERANCES.get(a.dtype, 1e-8)
        try:
            tensora.testing.assert_close(a, b, equal_nan=True, rtol=tolerance, atol=tolerance)
        except AssertionError as error:
            return " ".join(str(error).split())[:120]
    return None


def gradients(run, tensors, wanted):
    """The gradients of the weighted results with respect to the floating tensors."""
    leaves = [t.detach().requires_grad_() if w else t for t, w in zip(tensors, wanted)]
    results = [y for y in run(*leaves) if y.requires_grad]
    if not results:
        return None
    total = sum((y * tensora.arange(1, y.numel() + 1, dtype=tensora.float64).reshape(y.shape).cos()).sum().abs() for y in results)
    found = tensora.autograd.grad(total, [x for x, w in zip(leaves, wanted) if w], allow_unused=True)
    return [tensora.zeros_like(x) if g is None else g for g, x in zip(found, [x for x, w in zip(leaves, wanted) if w])]


def problem_of(name, sample, with_gradients):
    """What is wrong with vmap of the sample, "" if nothing, None if there is nothing to compare."""
    parts = sample.elements()
    count = len(parts)
    if not count:
        return None
    choices = {(True,) * count, (True,) + (False,) * (count - 1), (False,) * (count - 1) + (True,)}
    compared = False
    for chosen, dim in itertools.product(sorted(choices, reverse=True), (0, 1)):
        rows = [[part[i] if c else part[0] for part, c in zip(parts, chosen)] for i in range(BATCH)]
        try:
            loop = [sample.run(*row) for row in rows]
        except ERRORS:
            continue  # the variants are not in the op's domain
        if not loop[0] or any([t.shape for t in row] != [t.shape for t in loop[0]] for row in loop):
            continue  # the results' sizes depend on the elements
        in_dims = tuple(min(dim, part[0].dim()) if c else None for part, c in zip(parts, chosen))
        given = [part[0] if d is None else tensora.stack(part, d) for part, d in zip(parts, in_dims)]
        mapped = tensora.vmap(sample.run, in_dims=in_dims)
        message = vmap_samples.error_of(name)
        if is_in_place(name) and not chosen[0]:
            message = "has more elements than `self`"  # it cannot hold a result for each element
        compared = True
        try:
            found = mapped(*given)
        except ERRORS as error:
            if message and message in str(error) and ("random" in message or name.split(".")[-1] in str(error)):
                continue
            return f"{in_dims}: {type(error).__name__}: {str(error)[:160]}"
        if message:
            return f"{in_dims}: no error, expected: {message}"
        expected = [tensora.stack(column) for column in zip(*loop)]
        if wrong := difference(found, expected):
            return f"{in_dims}: {wrong}"
        wanted = [t.dtype in (tensora.float64, tensora.complex128) for t in given]
        if not with_gradients or not any(wanted) or is_in_place(name):
            continue

        def looped(*tensors):
            rows = zip(*([x] * BATCH if d is None else x.unbind(d) for x, d in zip(tensors, in_dims)))
            return [tensora.stack(column) for column in zip(*(sample.run(*row) for row in rows))]
        try:
            right = gradients(looped, given, wanted)
        except ERRORS:
            continue  # not differentiable
        if right is None:
            continue
        try:
            slopes = gradients(mapped, given, wanted)
        except ERRORS as error:
            return f"{in_dims}: gradient: {type(error).__name__}: {str(error)[:160]}"
        if wrong := difference(slopes or [], right):
            return f"{in_dims}: gradient: {wrong}"
    return "" if compared else None


def samples_of(name, overloads):
    """The calls that the op accepts."""
    kept, tried, written = [], set(), vmap_samples.of(name)
    for arguments, keywords in itertools.chain(written, vmap_samples.drawn(name, overloads)):
        sample = Sample(name, arguments, keywords)
        kind = (str([(t.shape, t.dtype) for t in sample.tensors]), repr(taken((arguments, keywords), [])))
        if kind in tried:
            continue
        tried.add(kind)
        try:
            results = sample.run(*sample.tensors)
        except ERRORS:
            continue
        if results and sample.tensors and not any(t.is_meta for t in results):
            kept.append(sample)
        if len(kept) == vmap_samples.MOST + len(written):
            break
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("signatures", type=pathlib.Path)
    parser.add_argument("--filter", help="only these ops, joined by commas")
    parser.add_argument("--list", action="store_true", help="print how many samples each op has")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tensora.set_num_threads(1)
    signatures = json.loads(options.signatures.read_text())
    only = options.filter.split(",") if options.filter else None
    began, failed, compared, ops, missing = time.time(), 0, 0, 0, []
    signatures.update({name: [] for name in vmap_samples.CALLS if name.partition(".")[0] in _MODULES})
    for name, overloads in sorted(signatures.items()):
        if only and name not in only or function_of(name) is None:
            continue
        if vmap_samples.reason(name):
            continue
        tensora.manual_seed(0)
        count = 0
        for number, sample in enumerate(samples_of(name, overloads)):
            problem = problem_of(name, sample, with_gradients=number == 0)
            count += problem is not None
            if problem:
                failed += 1
                shapes = ", ".join(f"{str(t.dtype)[6:]}{list(t.shape)}" for t in sample.tensors)
                print(f"FAILED {name}({shapes}): {problem}")
        if options.list:
            print(f"{name}: {count}")
        ops, compared = ops + (count > 0), compared + count
        if not count:
            missing.append(name)
    if missing:
        print(f"no sample, and no reason in vmap_samples.py: {', '.join(missing)}")
    print(f"vmap: {compared} samples of {ops} ops, {failed} failed, {time.time() - began:.1f} s")
    return 1 if failed or missing and not only else 0


if __name__ == "__main__":
    sys.exit(main())
