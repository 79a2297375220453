"""clang-tidy over all headers in one unit and over the changed sources, within a bound of time.

With --all every source is checked, however long it takes. What was clean is remembered in the
build folder, so a second run reaches the files for which the first had no time.
"""

import re
import shutil
import subprocess
import time

from common import Finding
from compiling import CleanCache, Closure, Flags, cuda_include_folder, needs_torch, run_side_by_side

NAME = "tidy"
PROGRAM = "clang-tidy-16"
BOUND_SECONDS = 120
_WARNING = re.compile(r"^(.*?):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)


def run(tree):
    if not shutil.which(PROGRAM):
        return [Finding("dev", 1, f"{PROGRAM} is not installed; ./dev lint installs it")]
    flags = Flags(tree)
    closure, cache = Closure(tree, flags.shared + [tree.text(".clang-tidy")]), CleanCache(tree, NAME)
    headers = _all_headers_unit(tree, closure)
    wanted = tree.sources(suffixes={".cpp"}) if tree.everything else changed_sources(tree)
    # The Python package and LibTorch need headers that are known only to a build that has it turned on.
    wanted = [(path, closure.key(path)) for path in wanted
              if not closure.needs_cuda(path) and not tree.exceptions.allows(NAME, path)
              and (not (path.startswith("python/") or needs_torch(path)) or flags.compiles_as_is(path))]
    waiting = [(path, key) for path, key in wanted if not cache.has(path, key)]
    end = None if tree.everything else time.monotonic() + BOUND_SECONDS

    def check(item):
        if end and item[1] and time.monotonic() > end:
            return None
        return _clang_tidy(tree, item[0], flags.of(item[0]))

    findings, left_out = set(), []
    items = [(headers, None), *waiting]
    for (path, key), found in zip(items, run_side_by_side(tree.jobs, check, items)):
        if found is None:
            left_out.append(path)
            continue
        findings.update(found)
        if key and not found:
            cache.add(path, key)
    cache.save()
    if left_out:
        print(f"tidy: no time for {len(left_out)} changed files; the next run goes on, --all checks every file")
    return sorted(findings, key=lambda f: (f.path, f.line))


def _all_headers_unit(tree, closure):
    unit = tree.build / "lint" / "all_headers.cpp"
    unit.parent.mkdir(parents=True, exist_ok=True)
    have_cuda = cuda_include_folder() is not None
    headers = [h for h in tree.sources("tensora/", {".h"})
               if not needs_torch(h) and not tree.exceptions.allows("headers", h) and (have_cuda or not closure.needs_cuda(h))]
    unit.write_text("".join(f'#include "{h}"\n' for h in headers))
    return str(unit)


def _clang_tidy(tree, path, flags):
    command = [PROGRAM, "--quiet", f"--config-file={tree.root / '.clang-tidy'}",
               f"--header-filter=^{re.escape(str(tree.root))}/(tensora|tests|bench|apps)/", path, "--", *flags,
               "-x", "c++"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree.root, check=False)
    prefix = str(tree.root) + "/"
    findings = [Finding(where.removeprefix(prefix), int(line), what)
                for where, line, what in _WARNING.findall(done.stdout)]
    if done.returncode and not findings:
        findings = [Finding(path.removeprefix(prefix), 1, f"{PROGRAM} failed: {done.stderr.strip()[:200]}")]
    return findings


def changed_sources(tree):
    """Sources that differ from the main branch: by commits, in the working tree, or not yet added."""
    def git(*words):
        return (tree.git(*words) or "").split()

    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "origin/main")
    if not base or base == head:
        base = git("rev-parse", "--verify", "-q", "HEAD~1") or head
    changed = set(git("ls-files", "--others", "--exclude-standard"))
    changed.update(git("diff", "--name-only", *base))
    return [f for f in tree.sources(suffixes={".cpp"}) if f in changed]
