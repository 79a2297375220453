#!/usr/bin/env python3
"""Performs the steps of docs/add-a-quant-type.md in a scratch copy: adds the dtype and the format,
compiles the op with it, and runs the page's program, which prints what the page says.

A new dtype changes a table that everything includes. Rebuilding all of it would prove nothing more.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from add_an_op_test import Builder, apply_blocks, code_blocks  # noqa: E402


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    root, build = arguments.root.resolve(), arguments.build.resolve()
    page = root / "docs/add-a-quant-type.md"
    scratch = build / "add_a_quant_type"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    b = Builder(root, build, scratch)
    shutil.copytree(root / "tensora", b.tree / "tensora")
    apply_changes(page, b.tree)
    _, program = apply_blocks(code_blocks(page), b.tree)
    subprocess.run([sys.executable, str(root / "cmake/generate.py"), str(b.tree),
                    str(b.generated)], check=True)
    flags = b.flags_like("core/dtype.cpp", "")
    kernel_flags = b.flags_like("quant/quantize_cpu.cpp", "TENSORA_ISA=")
    b.compile(b.tree / "tensora/ops/quant/quantize_cpu.cpp", kernel_flags, "isa")
    b.compile(b.tree / "tensora/ops/quant/quantize.cpp", flags, "plain")
    # The formats are headers: two small sources of the library carry them.
    objects = [str(b.compile(source, flags, "program")) for source in
               (program, b.tree / "tensora/core/dtype.cpp", b.tree / "tensora/base/check.cpp")]
    binary = scratch / "program"
    subprocess.run([flags[0], *b.sanitizers(), *objects, "-o", str(binary)], check=True)
    result = subprocess.run([str(binary)], text=True, capture_output=True)
    print(result.stdout, result.stderr)
    expected = re.search(r"```text\n(.*?)```", page.read_text(), re.S).group(1)
    if result.returncode != 0 or result.stdout != expected:
        raise SystemExit(f"the page says\n{expected}")


if __name__ == "__main__":
    main()
