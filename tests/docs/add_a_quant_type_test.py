#!/usr/bin/env python3
"""Performs the steps of docs/add-a-quant-type.md in a scratch copy: adds the dtype and the format,
compiles the op with it, and runs the page's program, which prints what the page says.

A new dtype changes a table that everything includes. Rebuilding all of it would prove nothing more.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from add_an_op_test import Builder  # noqa: E402


def apply_changes(page, tree):
    """Blocks that begin with `// change:` are pieces of a file with lines to add and remove."""
    for name, text in re.findall(r"```diff\n// change: (\S+)\n(.*?)```", page.read_text(), re.S):
        lines = text.splitlines()
        old = "".join(line[1:] + "\n" for line in lines if not line.startswith("+"))
        new = "".join(line[1:] + "\n" for line in lines if not line.startswith("-"))
        path = tree / name
        source = path.read_text()
        if source.count(old) != 1:
            raise SystemExit(f"{name} has not exactly one place like\n{old}")
        path.write_text(source.replace(old, new))


def main():
    b = Builder.from_arguments("add-a-quant-type")
    apply_changes(b.page, b.tree)
    _, program = b.perform()
    flags = b.flags_like("core/dtype.cpp", "")
    kernel_flags = b.flags_like("quant/quantize_cpu.cpp", "TENSORA_ISA=")
    b.compile(b.tree / "tensora/ops/quant/quantize_cpu.cpp", kernel_flags, "isa")
    b.compile(b.tree / "tensora/ops/quant/quantize.cpp", flags, "plain")
    # The formats are headers: two small sources of the library carry them.
    objects = [str(b.compile(source, flags, "program")) for source in
               (program, b.tree / "tensora/core/dtype.cpp", b.tree / "tensora/base/check.cpp")]
    binary = b.scratch / "program"
    subprocess.run([flags[0], *b.sanitizers(), *objects, "-o", str(binary)], check=True)
    b.expect_output([binary])


if __name__ == "__main__":
    main()
