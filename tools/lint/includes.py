"""A folder includes only itself and the folders before it: the house has no cycles. Kernels do not
reach the class Tensor, so that a new method or op does not recompile them."""

import posixpath
import re

from common import Finding

NAME = "includes"
ORDER = ["base", "core", "backend", "autograd", "dispatch", "ops", "sparse", "jit", "io", "onnx", "amp", "nn", "optim",
         "data", "models", "llm", "serve", "train", "distributed", "torch", "libtorch"]
OUTSIDE = ["apps", "python", "tests", "bench", "examples"]
UMBRELLAS = ("tensora/tensora.h", "tensora/libtorch.h")  # of the whole library, for programs alone
TENSOR = "tensora/core/tensor.h"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)


def run(tree):
    known = set(tree.files)
    findings = []
    for path in tree.sources():
        if path in UMBRELLAS or path.split("/")[0] not in ["tensora", *OUTSIDE]:
            continue
        code = tree.code(path)
        for match in _INCLUDE.finditer(code):
            message = _complaint(path, _resolve(path, match.group(1), known))
            if message and not tree.exceptions.allows(NAME, path):
                findings.append(Finding(path, code.count("\n", 0, match.start()) + 1, message))
        chain = _way_to_tensor(tree, path, known) if _is_kernel(path) else None
        if chain and not tree.exceptions.allows(NAME, path):
            findings.append(Finding(path, 1, f"a kernel sees {TENSOR}, which every new op changes: "
                                             + " -> ".join(chain)))
    return findings


def _is_kernel(path):
    inside = path.startswith(("tensora/ops/", "tensora/backend/"))
    return inside and path.endswith(("_cpu.cpp", "_isa.cpp", ".cu"))


def _way_to_tensor(tree, path, known):
    """The includes that lead from a source to the class Tensor; None if none do."""
    came_from, pending = {path: None}, [path]
    while pending:
        current = pending.pop()
        if current == TENSOR:
            chain = []
            while current:
                chain.append(current)
                current = came_from[current]
            return chain[::-1]
        for match in _INCLUDE.finditer(tree.code(current)):
            target = _resolve(current, match.group(1), known)
            if target in known and target not in came_from:
                came_from[target] = current
                pending.append(target)
    return None


def _resolve(path, included, known):
    """A path from the root of the tree; a file beside the includer wins, as it does for the compiler."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), included))
    return beside if beside in known else included


def _complaint(path, included):
    owner, target = _place(path), _place(included)
    if target is None:
        return None
    if owner not in [*ORDER, *OUTSIDE]:
        return f"the folder of {path} has no place in the order of folders; add it to tools/lint/includes.py"
    if owner in OUTSIDE:
        if target in OUTSIDE and target != owner:
            return f"{owner}/ includes {included}, but the outer folders do not include one another"
        return None
    if target in OUTSIDE:
        return f"tensora/{owner}/ includes {included}: the library includes nothing outside tensora/"
    if target in UMBRELLAS:
        return f"the library includes its parts, not the umbrella header {target}"
    if target not in ORDER:
        return f"{included} is in a folder that has no place in the order of folders"
    if ORDER.index(target) > ORDER.index(owner):
        return f"tensora/{owner}/ includes {included}, but {target}/ comes after {owner}/ in the order of folders"
    return None


def _place(path):
    """The folder that decides, the umbrella header itself, or None for what is not ours."""
    if path in UMBRELLAS:
        return path
    parts = path.split("/")
    # A room's sample inputs live with the op, but are compiled into the op suite.
    if path.endswith("_cases.cpp"):
        return "tests"
    if parts[0] == "tensora":
        # tensora/ops.h is the umbrella of a folder: it counts as part of it.
        return parts[1].removesuffix(".h")
    return parts[0] if parts[0] in OUTSIDE and len(parts) > 1 else None
