#!/usr/bin/env python3
"""`./dev golden`: writes tests/oracle/goldens/, PyTorch's answers for calls of every op.

The calls are those that tools/fuzz draws (its ops.py says how an op is called and how PyTorch spells
it), a few per op, always the same ones; Tensora is not needed. tests/oracle/goldens.cpp replays them.
Needs PyTorch (`pip install torch`), and says so where it is missing. A call is written as

    call add alpha=2             the op as apply_by_name knows it, and its attributes; `loose`: few digits;
                                 `first`: PyTorch returns the first output alone
    in float32 2,1 grad 1 2.5    an input: dtype, sizes, whether its gradient is asked for, elements
    num 2                        an input that is a number; `none` one that is left out
    raise                        PyTorch refuses the call; or else its outputs and gradients:
    out float32 2,1 3 4.5
    grad 0 float32 2,1 -0.75 0.25
"""
import argparse
import keyword
import pathlib
import random
import re
import sys
import types
import warnings
import zlib

try:
    import torch
except ImportError:
    sys.exit(f"golden: PyTorch is not installed for {sys.executable}; try another python3, or pip install torch")

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tools/fuzz"))
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, OverflowError, NotImplementedError)
CALLS = 14  # per op


class Recorder(types.ModuleType):
    """Stands for the Python module of Tensora's ops: a function returns the call it would make."""

    def Tensor(self, *data, **options):
        return None

    def __getattr__(self, op):
        return lambda *inputs, **attributes: (op, inputs, attributes)


sys.modules["tensora_glue"] = recorder = Recorder("tensora_glue")
from known import reason  # noqa: E402
from ops import FAMILIES, LOOSE  # noqa: E402
from samples import Layouts, weights  # noqa: E402

Layouts.varied = False


class Input:
    """What a call's function gets in place of a tensor: which input it is."""

    def __init__(self, sample):
        self.sample = sample


def element(x):
    if isinstance(x, bool):
        return str(int(x))
    if isinstance(x, int):
        return str(x)
    return repr(x).removesuffix(".0").replace("e+", "e")


def flat(items):
    return [x for item in items for x in flat(item)] if isinstance(items, list) else [items]


def tensor(x, mark=""):
    digits = {"float32": 9, "float16": 5, "bfloat16": 4}.get(str(x.dtype)[6:])
    # As few digits as give the element back.
    values = [float(f"{v:.{digits}g}") if digits else v for v in flat(x.detach().tolist())]
    sizes = ",".join(map(str, x.shape)) or "-"
    return " ".join([str(x.dtype)[6:], sizes, *([mark] if mark else []), *map(element, values)])


def attribute(value):
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(attribute, value)) + "]"
    return f"'{value}'" if isinstance(value, str) else repr(value)


def input_lines(items):
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from input_lines(item)
        elif isinstance(item, Input):
            yield "in " + tensor(item.sample.theirs, "grad" if item.sample.leaves else "")
        else:
            yield "none" if item is None else f"num {attribute(item)}"


def gradient_lines(call, outputs):
    """One line per input that has a gradient; throws what PyTorch throws."""
    started = [x for x in outputs if x.requires_grad]
    if not call.grads or not started:
        return
    seeds = [torch.tensor(weights(x.numel()), dtype=x.dtype).view(x.shape) for x in started]
    torch.autograd.backward(started, seeds)
    for number, x in enumerate(call.inputs):
        if x.leaves and x.theirs.grad is not None:
            yield f"grad {number} {tensor(x.theirs.grad)}"


def golden(call):
    """The lines of a call, or nothing if it is of no use as one. What may differ on purpose is left out."""
    if sum(x.theirs.numel() for x in call.inputs) > 40:
        return None
    op, inputs, attributes = call.ours(*[Input(x) for x in call.inputs])
    named = [f"{k[:-1] if keyword.iskeyword(k[:-1]) else k}={attribute(v)}" for k, v in attributes.items()]
    marks = (["loose"] if call.op in LOOSE else []) + (["first"] if call.first else [])
    lines = [" ".join(["call", op, *marks, *named]), *input_lines(inputs)]
    try:
        result = call.theirs(*[x.theirs for x in call.inputs])
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    except ERRORS as error:
        return None if reason(call, "raise", "", str(error)) else lines + ["raise"]
    if reason(call, "value", "", "") or sum(x.numel() for x in outputs) > 60:
        return None
    lines += ["out " + tensor(x) for x in outputs]
    try:
        return lines + ([] if reason(call, "gradient value", "", "") else list(gradient_lines(call, outputs)))
    except ERRORS:
        return lines


def goldens_of(family, op):
    """Calls of an op, drawn from a stream of its own, so that other ops do not change them."""
    found, refused = [], 0
    for attempt in range(60 * CALLS):
        rng = random.Random(zlib.crc32(op.encode()) * 1000 + attempt)
        lines = golden(family(rng, recorder, op))
        if lines is None or (lines[-1] == "raise" and refused >= 3) or lines in found:
            continue
        refused += lines[-1] == "raise"
        found.append(lines)
        if len(found) == CALLS:
            break
    return found


def defined_ops():
    """The names that the rooms give their ops."""
    ops, names = HERE.parent.parent / "tensora/ops", set()
    for path in [*ops.rglob("*.cpp"), *ops.rglob("*.h")]:
        names.update(re.findall(r'(?:name = |define\w*(?:<[^()]*>)?\(\s*)"(\w+)"', path.read_text()))
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "goldens")
    folder = parser.parse_args().out
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    folder.mkdir(exist_ok=True)
    count, size, defined = 0, 0, defined_ops()
    for family, ops in FAMILIES.items():
        calls = [lines for op in ops if op in defined for lines in goldens_of(family, op)]
        text = "# Written by ./dev golden from PyTorch; do not edit.\n" + \
            "".join("\n".join(lines) + "\n" for lines in calls)
        (folder / f"{family.__name__}.txt").write_text(text)
        count, size = count + len(calls), size + len(text)
    print(f"golden: {count} calls, {size >> 10} KiB, PyTorch {torch.__version__}, in {folder}")


if __name__ == "__main__":
    main()
