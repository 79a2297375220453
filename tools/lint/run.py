"""Runs the lints and prints `file:line: sentence` for each finding; fails if there is one."""

import argparse
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
import banned
import definitions
import format as format_lint
import forward
import headers
import includes
import length
import macros
import notes
import paths
import reference
import tidy
from common import Tree

LINTS = {lint.NAME: lint for lint in (includes, forward, length, macros, definitions, banned, notes, paths, reference,
                                        format_lint, headers, tidy)}


def main():
    described = "\n".join(f"  {name:11} {lint.__doc__.splitlines()[0]}" for name, lint in LINTS.items())
    parser = argparse.ArgumentParser(prog="./dev lint", description=f"{__doc__}\n\nlints:\n{described}",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="LINT,...", help="run only these lints")
    parser.add_argument("--all", action="store_true", help="clang-tidy over every source, not only the changed ones")
    parser.add_argument("--build", help="the build folder, for flags and generated headers")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()

    names = arguments.only.split(",") if arguments.only else list(LINTS)
    unknown = [name for name in names if name not in LINTS]
    if unknown:
        parser.error(f"there is no lint '{unknown[0]}'; there are: {', '.join(LINTS)}")

    tree = Tree(Path(__file__).resolve().parents[2], arguments.build, arguments.jobs, arguments.all)
    findings = list(tree.exceptions.malformed)
    for name in names:
        started = time.monotonic()
        found = LINTS[name].run(tree)
        outcome = f"{len(found)} findings" if found else "clean"
        print(f"lint: {name:11} {outcome:14} {time.monotonic() - started:6.1f} s", flush=True)
        findings += found
    # Where clang-tidy saw only some of the files, an entry for it may be needed by the others.
    findings += tree.exceptions.unused([n for n in names if n != tidy.NAME or tree.everything])
    for finding in findings:
        print(finding)
    print(f"lint: {len(findings)} findings in {len(tree.files)} files" if findings else "lint: clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
