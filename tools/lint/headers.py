"""Every header compiles alone, so that it can be the first include of any file."""

import os
import re
import subprocess

from common import Finding
from compiling import CleanCache, Closure, Flags, cuda_include_folder, run_side_by_side

NAME = "headers"
_ERROR = re.compile(r"^(.*?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)


def _generated(tree):
    """Headers that the build writes; users include them as they do the others."""
    found = (tree.build / "generated/include").glob("tensora/**/*.h")
    return sorted(os.path.relpath(path, tree.root) for path in found)


def run(tree):
    flags = Flags(tree).shared
    closure, cache = Closure(tree, flags), CleanCache(tree, NAME)
    have_cuda = cuda_include_folder() is not None
    waiting = []
    for path in tree.sources("tensora/", {".h"}) + _generated(tree):
        if tree.exceptions.allows(NAME, path) or (closure.needs_cuda(path) and not have_cuda):
            continue
        key = closure.key(path)
        if not cache.has(path, key):
            waiting.append((path, key))

    def compile_alone(item):
        command = ["g++", "-fsyntax-only", "-w", *flags, "-x", "c++", "-"]
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
