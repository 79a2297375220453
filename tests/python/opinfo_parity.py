#!/usr/bin/env python3
"""Runs PyTorch's OpInfo samples through tensora and compares values and gradients.

Needs PyTorch with its test data (torch.testing._internal), so it is no part of the test suite:
    python tests/python/opinfo_parity.py [--op NAME] [--report FILE]
"""
import argparse
import collections
import re
import sys
import warnings

import torch
from torch.testing._internal import common_methods_invocations as invocations

import tensora

DTYPES = {getattr(torch, name): getattr(tensora, name) for name in
          ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
           "complex64", "complex128", "uint16", "uint32", "uint64")}


def converted(value):
    """PyTorch's value as ours."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized:
            raise NotImplementedError("layout")
        data = value.detach()
        if data.is_conj() or data.is_neg():
            data = data.resolve_conj().resolve_neg()
        ours = tensora.from_dlpack(data.clone(memory_format=torch.preserve_format)) if data.dtype is not torch.bool \
            else tensora.from_dlpack(data.clone().to(torch.uint8)).bool()
        return ours.requires_grad_() if value.requires_grad else ours
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if isinstance(value, torch.device):
        return tensora.device(str(value))
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, torch.memory_format):
        return getattr(tensora, str(value).split(".")[1])
    if isinstance(value, torch.layout):
        return tensora.strided
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(converted(v) for v in value)
    if isinstance(value, dict):
        return {k: converted(v) for k, v in value.items()}
    return value


def tensors_of(value):
    if isinstance(value, (torch.Tensor, tensora.Tensor)):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_of(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors_of(v)]
    return []


# OpInfos whose call rearranges the arguments of the function they are named after.
ADAPTED = {
    "where": lambda x, condition, other: tensora.where(condition, x, other),
    "einsum": lambda operands, equation: tensora.einsum(equation, operands),
    "polygamma": lambda x, n: tensora.polygamma(n, x),
    "special.polygamma": lambda x, n: tensora.polygamma(n, x),
    "nn.functional.embedding": lambda weight, index, **kw: tensora.nn.functional.embedding(index, weight, **kw),
    "nn.functional.embedding_bag": lambda weight, index, **kw: tensora.nn.functional.embedding_bag(index, weight, **kw),
    "svd_lowrank": lambda a, b, **kw: tensora.svd_lowrank(a @ b.mT, **kw),
    "pca_lowrank": lambda a, b, **kw: tensora.pca_lowrank(a @ b.mT, **kw),
    "zero_": lambda x: x.clone().zero_(),
}
# Samples that cannot be carried over: their function is Python code for torch's tensors, or a storage
# that is larger than the tensor.
LEFT_OUT = ("nn.functional.triplet_margin_with_distance_loss", "linalg.pinv.singular", "linalg.lstsq.grad_oriented",
            "as_strided.partial_views", "normal.in_place")


def function_for(op):
    """Ours of the same name; None if there is none."""
    name = op.name
    if name in ADAPTED:
        return ADAPTED[name]
    place = tensora
    for part in name.split("."):
        place = getattr(place, part, None)
        if place is None:
            break
    if place is not None and callable(place):
        return place
    short = name.split(".")[-1]
    if callable(getattr(tensora.Tensor, short, None)) and "." not in name:
        return getattr(tensora.Tensor, short)
    return None


def compare(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        if not isinstance(ours, tensora.Tensor):
            return f"expected a tensor, got {type(ours).__name__}"
        if tuple(ours.shape) != tuple(theirs.shape):
            return f"shape {tuple(ours.shape)} instead of {tuple(theirs.shape)}"
        if DTYPES.get(theirs.dtype) is not ours.dtype:
            return f"dtype {ours.dtype} instead of {theirs.dtype}"
        theirs = theirs.detach().resolve_conj().resolve_neg()
        got = torch.tensor(ours.detach().tolist(), dtype=theirs.dtype).reshape(theirs.shape) if ours.dtype in (
            tensora.bool,) else torch.from_dlpack(ours.detach().contiguous())
        try:
            tolerance = {"rtol": 2e-4, "atol": 2e-4} if theirs.dtype in (torch.float32, torch.complex64) else {}
            torch.testing.assert_close(got, theirs, equal_nan=True, check_stride=False, **tolerance)
        except AssertionError as error:
            return str(error).replace("\n", " ")[:160]
        return None
    if isinstance(theirs, (list, tuple)):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            return f"expected {len(theirs)} results"
        for a, b in zip(ours, theirs):
            if problem := compare(a, b):
                return problem
        return None
    if isinstance(theirs, (bool, int, float)):
        return None if ours == theirs or ours != ours else f"{ours!r} instead of {theirs!r}"
    return None


RANDOM = re.compile(r"dropout|rand|bernoulli|multinomial|normal$|normal_|uniform|exponential|cauchy|geometric|rrelu|"
                    r"log_normal|empty|new_empty|fractional|gumbel|svd|eigh|qr$|lu$|eig|lstsq|lu_factor|scaled_dot_product_attention$|multi_head_attention_forward")


def run_sample(op, function, sample):
    """None, or what differs."""
    theirs = op(sample.input, *sample.args, **sample.kwargs)
    given = converted((sample.input, tuple(sample.args), dict(sample.kwargs)))
    ours = function(given[0], *given[1], **given[2])
    if op.name not in ("svd", "linalg.svd") and RANDOM.search(op.name):
        shapes = [tuple(t.shape) for t in tensors_of(theirs)]
        return None if [tuple(t.shape) for t in tensors_of(ours)] == shapes else "shapes differ"
    if problem := compare(ours, theirs):
        return problem
    return compare_gradients(sample, given, ours, theirs)


def compare_gradients(sample, given, ours, theirs):
    inputs = [t for t in tensors_of((sample.input, sample.args, sample.kwargs)) if t.requires_grad]
    own = [t for t in tensors_of(given) if t.requires_grad]
    outputs = [(a, b) for a, b in zip(tensors_of(ours), tensors_of(theirs)) if b.requires_grad]
    if not inputs or not outputs:
        return None
    seeds = [torch.ones_like(b) for _, b in outputs]
    expected = torch.autograd.grad([b for _, b in outputs], inputs, seeds, allow_unused=True)
    found = tensora.autograd.grad([a for a, _ in outputs], own, [converted(s) for s in seeds], allow_unused=True)
    for a, b in zip(found, expected):
        if b is None and (a is None or not bool(a.abs().sum() != 0)):
            continue
        if a is None and not b.any():
            continue
        problem = "no gradient" if a is None else compare(a, b)
        if problem:
            return "gradient: " + problem
    return None


def samples_of(op, dtype):
    gradient = (dtype.is_floating_point or dtype.is_complex) and op.supports_autograd
    return op.sample_inputs("cpu", dtype, requires_grad=gradient)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op")
    parser.add_argument("--report")
    parser.add_argument("--dtypes", default="float32,int64")
    parser.add_argument("--limit", type=int, default=40, help="samples of each op and dtype")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    passed, total, problems, missing = collections.Counter(), collections.Counter(), {}, []
    for op in invocations.op_db:
        if arguments.op and not re.fullmatch(arguments.op, op.name):
            continue
        if "sparse" in op.name or op.name.startswith(("_refs", "ops.", "__r", "torch.ops", "jiterator")):
            continue
        if f"{op.name}.{op.variant_test_name}".rstrip(".") in LEFT_OUT:
            continue
        function = function_for(op)
        if function is None:
            missing.append(op.name)
            continue
        for dtype in (getattr(torch, d) for d in arguments.dtypes.split(",")):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            try:
                samples = list(samples_of(op, dtype))[:arguments.limit]
            except Exception:
                continue
            for sample in samples:
                try:
                    problem = run_sample(op, function, sample)
                except Exception as error:
                    problem = f"{type(error).__name__}: {str(error)[:160]}"
                key = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
                total[key] += 1
                passed[key] += problem is None
                if problem:
                    problems.setdefault(key, collections.Counter())[problem.replace(chr(10), ' ')] += 1
    report(passed, total, problems, missing, arguments.report)


def report(passed, total, problems, missing, path):
    out = open(path, "w") if path else sys.stdout
    count = sum(total.values())
    print(f"{sum(passed.values())} of {count} samples pass ({100 * sum(passed.values()) / max(count, 1):.1f} %); "
          f"{sum(passed[k] == total[k] for k in total)} of {len(total)} ops pass all", file=out)
    for key in sorted(problems, key=lambda k: passed[k] - total[k]):
        print(f"{key}: {passed[key]}/{total[key]}", file=out)
        for problem, times in problems[key].most_common(3):
            print(f"    {times} x {problem}", file=out)
    print("not here:", ", ".join(sorted(set(missing))), file=out)


if __name__ == "__main__":
    main()
