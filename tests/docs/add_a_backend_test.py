#!/usr/bin/env python3
"""Checks docs/add-a-backend.md: its excerpts are those of the toy device, which other tests run, and
the generator does for a new folder of tensora/backend what the page says.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys


def check_excerpts(root):
    text = (root / "docs/add-a-backend.md").read_text()
    blocks = re.findall(r"```(?:cpp|cmake)\n(?://|#) file: (\S+)\n(.*?)```", text, re.S)
    if len(blocks) < 5:
        raise SystemExit(f"only {len(blocks)} excerpts were found in docs/add-a-backend.md")
    for name, excerpt in blocks:
        if excerpt not in (root / name).read_text():
            raise SystemExit(f"docs/add-a-backend.md: this is not in {name}:\n{excerpt}")
    for name in set(re.findall(r"`(\w+/[\w/]+\.(?:h|cpp|cmake))`", text)):
        if not any((root / folder / name).exists() for folder in ("", "tensora")):
            raise SystemExit(f"docs/add-a-backend.md names {name}, which does not exist")


def check_generator(root, scratch):
    shutil.rmtree(scratch, ignore_errors=True)
    tree = scratch / "src"
    shutil.copytree(root / "tensora", tree / "tensora")
    (tree / "tensora/backend/vast").mkdir()
    (tree / "tensora/backend/vast/pointwise.h").write_text("// pointwise_kernel<F>\n")
    (tree / "tensora/ops/matrix/matmul_vast.cpp").write_text("void register_matmul_vast() {}\n")
    subprocess.run([sys.executable, str(root / "cmake/generate.py"), str(tree),
                    str(scratch / "generated")], check=True)
    sources = scratch / "generated/src"
    expected = {
        "register_vast_kernels.cpp": ["namespace tensora::vast", "void register_vast_kernels() {",
                                      "  register_matmul_vast();", "  register_pointwise_binary_vast();"],
        "pointwise_binary_vast.cpp": ['#include "tensora/backend/vast/pointwise.h"',
                                      'set_kernel(Device("vast").type, pointwise_kernel<F>)',
                                      "  set<functors::Add>();"],
        "register_cuda_kernels.cpp": ["  register_matmul_cuda();", "  register_pointwise_binary_cuda();"],
    }
    for name, parts in expected.items():
        text = (sources / name).read_text()
        for part in parts:
            if part not in text:
                raise SystemExit(f"{name} lacks {part!r}:\n{text}")
    for name in ("register_ops.cpp", "register_cpu_kernels.cpp", "register_cuda_kernels.cpp"):
        if "vast" in (sources / name).read_text():
            raise SystemExit(f"{name} names a kernel of another backend")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    check_excerpts(root)
    check_generator(root, arguments.build.resolve() / "add_a_backend")


if __name__ == "__main__":
    main()
