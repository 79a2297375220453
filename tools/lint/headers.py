"""Every header compiles alone, so that it can be the first include of any file.

Where foo.cpp includes foo.h first and is compiled as it is, the build proves it for foo.h; the other
headers are compiled here.
"""

import os
import re
import subprocess

from common import Finding
from compiling import CleanCache, Closure, Flags, cuda_include_folder, needs_torch, run_side_by_side

NAME = "headers"
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_ERROR = re.compile(r"^(.*?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)


def _generated(tree):
    """Headers that the build writes; users include them as they do the others."""
    found = (tree.build / "generated/include").glob("tensora/**/*.h")
    return sorted(os.path.relpath(path, tree.root) for path in found)


def _is_proven_by_build(tree, flags, path):
    source = path.removesuffix(".h") + ".cpp"
    if not flags.compiles_as_is(source):
        return False
    first = _INCLUDE.search(tree.code(source))
    return first is not None and first.group(1) == path


def run(tree):
    flags = Flags(tree)
    closure, cache = Closure(tree, flags.shared), CleanCache(tree, NAME)
    have_cuda = cuda_include_folder() is not None
    waiting = []
    for path in tree.sources("tensora/", {".h"}) + _generated(tree):
        if needs_torch(path) or tree.exceptions.allows(NAME, path) or _is_proven_by_build(tree, flags, path) or (
                closure.needs_cuda(path) and not have_cuda):
            continue
        key = closure.key(path)
        if not cache.has(path, key):
            waiting.append((path, key))

    def compile_alone(item):
        command = ["g++", "-fsyntax-only", "-w", *flags.shared, "-x", "c++", "-"]
        return subprocess.run(command, input=f'#include "{item[0]}"\n', capture_output=True, text=True,
                              cwd=tree.root, check=False)

    findings = []
    for (path, key), done in zip(waiting, run_side_by_side(tree.jobs, compile_alone, waiting)):
        if done.returncode == 0:
            cache.add(path, key)
            continue
        error = _ERROR.search(done.stderr)
        where, line, what = error.groups() if error else (path, 1, done.stderr.strip()[:200])
        inside = "" if (tree.root / where).resolve() == (tree.root / path).resolve() else f" (in {where}:{line})"
        findings.append(Finding(path, 1 if inside else int(line), f"does not compile alone: {what}{inside}"))
    cache.save()
    return findings
