#!/usr/bin/env python3
"""Compiles the table of names in docs/coming-from-libtorch.md: what it says is there exists, what it says is
not there does not."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HEADER = "#include <torch/torch.h>\n"


def rows(document):
    """[(namespace, names that are there, names that are not)]"""
    table = document.split("<!-- names -->\n")[1].split("\n\n")[0]
    for line in table.splitlines()[2:]:
        space, there, absent = (re.findall(r"`([\w:]+)`", cell) for cell in line.strip("|").split("|"))
        yield space[0], [name for name in there if name != "FuncOptions"], absent


def errors(arguments, text, folder):
    """The lines of `text` that do not compile."""
    source = pathlib.Path(folder) / "names.cpp"
    source.write_text(text)
    done = subprocess.run([arguments.compiler, "-std=c++20", "-fsyntax-only", "-fmax-errors=0",
                           *(f"-I{i}" for i in arguments.include), str(source)], capture_output=True, text=True)
    lines = text.splitlines()
    return [lines[int(n) - 1] for n in re.findall(r"names\.cpp:(\d+):\d+: error", done.stderr)], done.stderr


def using(space, name):
    return f"namespace probe_{name} {{ using {space}::{name}; }}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--include", action="append", default=[])
    arguments = parser.parse_args()
    table = list(rows((arguments.root / "docs/coming-from-libtorch.md").read_text()))
    there = [using(space, name) for space, names, _ in table for name in names]
    absent = [using(space, name) for space, _, names in table for name in names]
    if len(there) < 150 or not absent:
        sys.exit(f"the table has only {len(there)} names")
    with tempfile.TemporaryDirectory() as folder:
        broken, output = errors(arguments, HEADER + "".join(there), folder)
        if broken or "error" in output:
            sys.exit(f"the table says that these are there:\n{''.join(broken)}\n{output[:2000]}")
        failing, _ = errors(arguments, HEADER + "".join(absent), folder)
        wrong = [line for line in absent if line.strip() not in failing]
        if wrong:
            sys.exit("the table says that these are not there:\n" + "".join(wrong))
    print(f"{len(there)} names are there, {len(absent)} are not")


if __name__ == "__main__":
    main()
