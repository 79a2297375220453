#!/usr/bin/env python3
"""Compares random calls of Tensora with PyTorch: values, dtypes, shapes, strides, gradients, errors.

    PYTHONPATH=build/tests/python_glue tools/fuzz/run.py [--count N] [--seed S] [--only OP,...] [--large] [--programs]
    PYTHONPATH=build/tests/python_glue:build/python tools/fuzz/run.py --functions|--scripts [--mistakes] [--count N] ...

With --programs, random programs of views, in-place ops and gradients take the place of single calls.
With --functions, the calls are those of the Python package (target tensora_python): whole functions,
methods and their in-place forms, not the ops that they are made of; with --mistakes too, one argument
of each call is a wrong one. With --scripts, the package runs random scripts of views, writes and gradients.

Needs PyTorch (`pip install torch`) and the Python module that the tests build (target tensora_glue);
says so and does nothing where one is missing. A finding is printed with the call that shows it, and
makes the exit status 1; what differs on purpose is listed in known.py.
"""
import argparse
import random
import sys
import warnings

try:
    import torch
    import tensora_glue as glue
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(0)

import functions
import programs
import scripts
from comparing import close, flat, is_rounding, numbers
from known import reason
from ops import BEYOND_GOLDENS, FAMILIES, LOOSE
from samples import Drawn, weights

ERRORS = (RuntimeError, IndexError, TypeError, ValueError, MemoryError, OverflowError, NotImplementedError)


def elements(tensor):
    """In one list; complex numbers as such."""
    if isinstance(tensor, torch.Tensor):
        return numbers(tensor)
    if not tensor.dtype.startswith("complex"):
        return flat(tensor.tolist())
    parts = flat(glue.view_as_real(tensor).tolist())
    return [complex(*pair) for pair in zip(parts[::2], parts[1::2])]


def outcome(function, tensors):
    try:
        result = function(*tensors)
        return list(result) if isinstance(result, (tuple, list)) else [result], ""
    except ERRORS as error:
        return None, f"{type(error).__name__}: {error}".split("\n")[0]


def compare_tensors(ours, theirs, call, what):
    dtype = str(theirs.dtype)[6:]
    if (ours.dtype, tuple(ours.shape)) != (dtype, tuple(theirs.shape)):
        return what + "type", f"{ours.dtype} {ours.shape}", f"{dtype} {tuple(theirs.shape)}"
    # An expanded tensor's elements would fill the memory; so would the lists of one without elements.
    if theirs.numel() > 100_000 or max(theirs.shape, default=0) > 100_000:
        return None
    a, b = elements(ours), elements(theirs)
    loose = call.op in LOOSE or what
    if not all(close(x, y, dtype, loose) for x, y in zip(a, b)):
        return what + "value", a, b
    if call.strides and not what and any(size > 1 and a != b for size, a, b in
                                         zip(ours.shape, ours.strides, theirs.stride())):
        return "strides", ours.strides, theirs.stride()
    return None


def seed_of(tensor):
    if tensor.is_complex():
        return torch.view_as_complex(seed_of(torch.view_as_real(tensor.detach().resolve_conj())))
    return torch.tensor(weights(tensor.numel()), dtype=tensor.dtype).view(tensor.shape)


def our_backward(pairs):
    """Starts backward at the weighted sum of our outputs."""
    total = None
    for output, seed in pairs:
        if seed.is_complex():
            output, seed = glue.view_as_real(output), torch.view_as_real(seed)
        given = glue.view(glue.Tensor(seed.flatten().tolist(), dtype=output.dtype), size=list(seed.shape))
        if len(pairs) == 1:
            return output.backward(given)
        part = glue.sum(glue.mul(output, given))
        total = part if total is None else glue.add(total, part)
    return total.backward()


def gradients(call, ours, theirs):
    """The first difference of the leaves' gradients, or nothing."""
    leaves = [leaf for x in call.inputs for leaf in x.leaves]
    pairs = [(a, b) for a, b in zip(ours, theirs) if b.requires_grad]
    if not leaves or not call.grads or not pairs or any(b.numel() > 100_000 for _, b in pairs):
        return None
    seeds = [seed_of(b) for _, b in pairs]
    torch_failed = outcome(lambda: torch.autograd.backward([b for _, b in pairs], seeds), [])[1]
    failed = outcome(lambda: our_backward([(a, seed) for (a, _), seed in zip(pairs, seeds)]), [])[1]
    if bool(torch_failed) != bool(failed):
        return "gradient raise", failed or "no error", torch_failed or "no error"
    for our_leaf, their_leaf in leaves:
        if failed or their_leaf.grad is None or their_leaf.numel() == 0:
            continue
        if our_leaf.grad is None:
            if bool((their_leaf.grad != 0).any()):
                return "gradient", None, their_leaf.grad.tolist()
            continue
        found = compare_tensors(our_leaf.grad, their_leaf.grad, call, "gradient ")
        if found:
            return found
    return None


def compare(call):
    ours, our_error = outcome(call.ours, [x.ours for x in call.inputs])
    theirs, their_error = outcome(call.theirs, [x.theirs for x in call.inputs])
    if bool(our_error) != bool(their_error):
        return "raise", our_error or "no error", their_error or "no error"
    if our_error:
        return None
    if call.first:
        ours = ours[:1]
    if len(ours) != len(theirs):
        return "count", len(ours), len(theirs)
    for number, (a, b) in enumerate(zip(ours, theirs)):
        found = compare_tensors(a, b.detach(), call, "")
        if found and not (found[0] == "value" and is_rounding(*found[1:], exact(call)[0][number], a.dtype)):
            return found
    found = gradients(call, ours, theirs)
    if found and found[0] == "gradient value":
        leaves = [leaf for x in call.inputs for leaf in x.leaves]
        if all(theirs.grad is None or ours.grad is None or
               is_rounding(elements(ours.grad), elements(theirs.grad), right.grad, ours.dtype)
               for (ours, theirs), right in zip(leaves, exact(call)[1])):
            return None
    return found


def exact(call):
    """PyTorch's outputs in float64, and the leaves with their gradients."""
    inputs, leaves = zip(*[x.wide() for x in call.inputs])
    outputs = outcome(call.theirs, inputs)[0]
    if outputs is None:
        return [None] * 9, []
    pairs = [(y, seed_of(y)) for y in outputs if y.requires_grad]
    if pairs:
        outcome(lambda: torch.autograd.backward(*map(list, zip(*pairs))), [])
    return outputs, [leaf for leaf in leaves if leaf is not None]


def compare_parts(ours, theirs, what):
    """What differs between a program's tensors."""
    if (ours.dtype, tuple(ours.shape)) != (str(theirs.dtype)[6:], tuple(theirs.shape)):
        return f"{what} {ours.dtype} {ours.shape}", f"{theirs.dtype} {tuple(theirs.shape)}"
    if all(close(x, y, ours.dtype, True) for x, y in zip(flat(ours.tolist()), flat(theirs.tolist()))):
        return None
    return f"{what} {ours.tolist()}", theirs.tolist()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--count", type=int, default=20000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--show", type=int, default=3, help="findings to print per op and kind")
    arguments.add_argument("--programs", action="store_true", help="programs instead of single calls")
    arguments.add_argument("--scripts", action="store_true", help="scripts that both packages run")
    arguments.add_argument("--functions", action="store_true", help="functions of the package instead of ops")
    arguments.add_argument("--mistakes", action="store_true", help="one argument of each function is a wrong one")
    arguments.add_argument("--large", action="store_true", help="shapes of thousands of elements too")
    options = arguments.parse_args()
    Drawn.large = options.large
    warnings.simplefilter("ignore")
    only = set(filter(None, options.only.split(",")))
    if options.functions:
        return 1 if functions.run(options.count, options.seed, options.show, only, options.mistakes) else 0
    if options.scripts:
        return 1 if scripts.run(options.count, options.seed, options.show) else 0
    if options.programs:
        return 1 if programs.run(options.count, options.seed, options.show, compare_parts) else 0
    calls = [(family, op) for families in (FAMILIES, BEYOND_GOLDENS) for family, ops in families.items()
             for op in ops if not only or op in only]
    findings, meant = {}, 0
    for number in range(options.count):
        rng = random.Random(options.seed * 1_000_003 + number)
        family, op = rng.choice(calls)
        call = family(rng, glue, op)
        difference = compare(call)
        if difference is None:
            continue
        kind, ours, theirs = difference
        if reason(call, kind, str(ours), str(theirs)):
            meant += 1
            continue
        seen = findings.setdefault((op, kind), [0])
        seen[0] += 1
        if seen[0] <= options.show:
            print(f"--- {op} {call.text}: {kind}\n  tensora {ours}\n  pytorch {theirs}")
            for x in call.inputs:
                print("   ", x.text)
    print(f"{options.count} calls of {len(calls)} ops, seed {options.seed}: "
          f"{sum(seen[0] for seen in findings.values())} differ, {meant} more on purpose")
    for (op, kind), seen in sorted(findings.items()):
        print(f"  {seen[0]:6} {op} {kind}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
