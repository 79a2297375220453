#!/usr/bin/env python3
"""Runs PyTorch's OpInfo samples through tensora's vmap, beside a loop, and through jvp, beside PyTorch's.

Needs PyTorch with its test data (torch.testing._internal), so it is no part of the test suite:
    python tests/python/opinfo_transforms.py (vmap | jvp) [--op NAME] [--report FILE]
"""
import argparse
import collections
import itertools
import re
import sys
import warnings

import opinfo_parity as parity
import tensora
import torch
from torch.testing._internal import common_methods_invocations as invocations

# Ops whose results have a size that depends on the elements, or that give no tensors, or that are random.
LEFT_OUT = re.compile(r"nonzero|argwhere|masked_select|unique|bincount|histogram|item$|tolist|equal$|allclose|is_same_size|randn|"
                      r"rand|empty|bernoulli|multinomial|normal$|normal_|uniform|exponential|cauchy|geometric|rrelu|dropout|"
                      r"gumbel|fractional|to_sparse|resize_|corrcoef_|repeat_interleave|combinations|cartesian_prod")


def leaves(value, found):
    """The value with each tensor replaced by its number in `found`."""
    if isinstance(value, tensora.Tensor):
        found.append(value)
        return _Place(len(found) - 1)
    if isinstance(value, (list, tuple)):
        return type(value)(leaves(v, found) for v in value)
    if isinstance(value, dict):
        return {k: leaves(v, found) for k, v in value.items()}
    return value


class _Place:
    def __init__(self, at):
        self.at = at


def filled(form, tensors):
    if isinstance(form, _Place):
        return tensors[form.at]
    if isinstance(form, (list, tuple)):
        return type(form)(filled(v, tensors) for v in form)
    if isinstance(form, dict):
        return {k: filled(v, tensors) for k, v in form.items()}
    return form


def variants(tensor):
    """Three elements of a batch: other values of the same domain where that is possible."""
    tensor = tensor.detach()
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return [tensor, tensor * 0.75, tensor * 0.5]
    return [tensor, tensor.clone(), tensor.clone()]


def flat(value):
    if isinstance(value, tensora.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return []


def same(ours, expected):
    for a, b in itertools.zip_longest(ours, expected):
        if a is None or b is None:
            return f"{len(ours)} results instead of {len(expected)}"
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {tuple(a.shape)} instead of {b.dtype} {tuple(b.shape)}"
        try:
            tensora.testing.assert_close(a, b, equal_nan=True, **({"rtol": 1e-4, "atol": 1e-5} if b.dtype in (
                tensora.float32, tensora.complex64) else {}))
        except AssertionError as error:
            return str(error).replace("\n", " ")[:160]
    return None


def vmap_problem(op, function, sample):
    tensors = []
    form = leaves(parity.converted((sample.input, tuple(sample.args), dict(sample.kwargs))), tensors)

    def run(*given):
        value = filled(form, given)
        results = flat(function(value[0], *value[1], **value[2]))
        return tuple(results)
    if not tensors:
        return None
    batches = [variants(t) for t in tensors]
    choices = {(True,) * len(tensors), (True,) + (False,) * (len(tensors) - 1), (False,) * (len(tensors) - 1) + (True,)}
    for chosen, last in itertools.product(sorted(choices, reverse=True), (False, True)):
        rows = [[b[i] if c else b[0] for b, c in zip(batches, chosen)] for i in range(3)]
        try:
            loop = [run(*row) for row in rows]
        except Exception:
            return None  # the variants are not in the op's domain
        if any([t.shape for t in row] != [t.shape for t in loop[0]] for row in loop):
            return None
        if not loop[0]:
            return None
        expected = [tensora.stack(column) for column in zip(*loop)]
        dim = -1 if last else 0
        given = [tensora.stack(b, dim) if c else b[0] for b, c in zip(batches, chosen)]
        in_dims = tuple(dim if c else None for c in chosen)
        try:
            found = tensora.vmap(run, in_dims=in_dims)(*given)
        except Exception as error:
            return f"{in_dims}: {type(error).__name__}: {str(error)[:160]}"
        if problem := same(found, expected):
            return f"{in_dims}: {problem}"
    return None


def jvp_problem(op, function, sample):
    theirs = [t for t in parity.tensors_of((sample.input, sample.args, sample.kwargs)) if t.requires_grad]
    if not theirs:
        return None
    found = []
    ours_form = leaves(parity.converted((sample.input, tuple(sample.args), dict(sample.kwargs))), found)
    places = [i for i, t in enumerate(found) if t.requires_grad]
    plain = [t.detach() for t in found]
    torch.manual_seed(1)
    tangents = [torch.randn_like(t) for t in theirs]

    def ours_run(*given):
        values = list(plain)
        for place, value in zip(places, given):
            values[place] = value
        value = filled(ours_form, values)
        return tuple(t for t in flat(function(value[0], *value[1], **value[2])) if t.dtype.is_floating_point or t.dtype.is_complex)
    ours = lambda: tensora.func.jvp(ours_run, tuple(plain[i] for i in places), tuple(parity.converted(t) for t in tangents))[1]
    import torch.autograd.forward_ad as forward
    with forward.dual_level():
        order = iter(tangents)

        def dual(value):
            if isinstance(value, torch.Tensor):
                return forward.make_dual(value.detach(), next(order)) if value.requires_grad else value
            if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
                return type(value)(dual(v) for v in value)
            if isinstance(value, dict):
                return {k: dual(v) for k, v in value.items()}
            return value
        try:
            value = op(dual(sample.input), *dual(tuple(sample.args)), **dual(dict(sample.kwargs)))
            outputs = [t for t in parity.tensors_of(value) if t.dtype.is_floating_point or t.dtype.is_complex]
            expected = [forward.unpack_dual(t).tangent for t in outputs]
        except (NotImplementedError, RuntimeError):
            return None  # PyTorch has no rule
        expected = [torch.zeros_like(o) if t is None else t for o, t in zip(outputs, expected)]
    return parity.compare(tuple(ours()), tuple(expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mode", choices=("vmap", "jvp"))
    parser.add_argument("--op")
    parser.add_argument("--report")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--limit", type=int, default=12, help="samples of each op")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    check = vmap_problem if arguments.mode == "vmap" else jvp_problem
    passed, total, problems, missing = collections.Counter(), collections.Counter(), {}, []
    for op in invocations.op_db:
        if arguments.op and not re.fullmatch(arguments.op, op.name):
            continue
        if "sparse" in op.name or op.name.startswith(("_refs", "ops.", "torch.ops", "jiterator")) or LEFT_OUT.search(op.name):
            continue
        if f"{op.name}.{op.variant_test_name}".rstrip(".") in parity.LEFT_OUT:
            continue
        if arguments.mode == "jvp" and parity.RANDOM.search(op.name):
            continue
        function, dtype = parity.function_for(op), getattr(torch, arguments.dtype)
        if function is None or dtype not in op.supported_dtypes("cpu"):
            missing.append(op.name)
            continue
        try:
            gradient = arguments.mode == "jvp" and op.supports_autograd
            samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=gradient), arguments.limit))
        except Exception:
            continue
        key = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
        for sample in samples:
            try:
                problem = check(op, function, sample)
            except Exception as error:
                problem = f"{type(error).__name__}: {str(error)[:160]}"
            total[key] += 1
            passed[key] += problem is None
            if problem:
                problems.setdefault(key, collections.Counter())[problem.replace(chr(10), " ")] += 1
    parity.report(passed, total, problems, missing, arguments.report)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
