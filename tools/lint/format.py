"""The sources are as clang-format writes them; with --fix this rewrites them."""

import argparse
import re
import shutil
import subprocess
from pathlib import Path

from common import Finding, Tree
from compiling import run_side_by_side

NAME = "format"
PROGRAM = "clang-format-16"
BATCH = 20
_WARNING = re.compile(r"^(.*?):(\d+):\d+: (?:error|warning): code should be clang-formatted", re.MULTILINE)


def _clang_format(tree, *options):
    """What clang-format says about all sources, a batch of them per process."""
    files = tree.sources()
    batches = [files[at:at + BATCH] for at in range(0, len(files), BATCH)]

    def work(batch):
        command = [PROGRAM, "--style=file", *options, *batch]
        return subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False).stderr

    return "".join(run_side_by_side(tree.jobs, work, batches))


def run(tree):
    if not shutil.which(PROGRAM):
        return [Finding("dev", 1, f"{PROGRAM} is not installed; ./dev lint installs it")]
    first = {}
    stderr = _clang_format(tree, "--dry-run")
    for match in _WARNING.finditer(stderr):
        first.setdefault(match.group(1), int(match.group(2)))
    findings = [Finding(path, line, "not formatted; run ./dev format") for path, line in sorted(first.items())]
    if not findings and stderr.strip():
        findings = [Finding(".clang-format", 1, f"{PROGRAM} failed: {stderr.strip().splitlines()[0]}")]
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="rewrite the files")
    arguments = parser.parse_args()
    tree = Tree(Path(__file__).resolve().parents[2], jobs=2)
    if arguments.fix:
        stderr = _clang_format(tree, "-i")
        raise SystemExit(stderr.strip() or 0)
    findings = run(tree)
    print(*findings, sep="\n", end="\n" if findings else "")
    raise SystemExit(bool(findings))


if __name__ == "__main__":
    main()
