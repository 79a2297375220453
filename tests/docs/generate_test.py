#!/usr/bin/env python3
"""Checks what cmake/generate.py says of rooms whose registration cannot work."""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile


def generate(root, changes):
    """The exit status and messages of the generator for a copy of the tree with some files added."""
    with tempfile.TemporaryDirectory(prefix="tensora generate ") as scratch:
        tree = pathlib.Path(scratch) / "src"
        shutil.copytree(root / "tensora", tree / "tensora")
        for name, text in changes.items():
            path = tree / "tensora/ops" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        out = pathlib.Path(scratch) / "out"
        done = subprocess.run([sys.executable, str(root / "cmake/generate.py"), str(tree), str(out)],
                              capture_output=True, text=True)
        lists = "".join(p.read_text() for p in sorted(out.glob("src/register_*.cpp")))
        return done.returncode, done.stderr, lists


def expect(ok, *what):
    if not ok:
        raise SystemExit(" ".join(str(part) for part in what))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path)
    root = parser.parse_args().root
    op = "void register_{}(OpRegistry& registry) {{}}\n"

    for name, text in (("shape/odd.cpp", "// helpers\n"), ("shape/odd_cpu.cpp", "void f() {}\n"),
                       ("shape/odd_cuda.cu", "void f() {}\n"), ("shape/odd_cases.cpp", "\n"),
                       ("shape/odd.cpp", op.format("other"))):
        status, message, _ = generate(root, {name: text})
        expect(status != 0 and name in message and "Registers nothing" in message, name, message)
        status, message, _ = generate(root, {name: "// Registers nothing: a helper.\n"})
        expect(status == 0, name, message)

    status, message, _ = generate(root, {"shape/matmul.cpp": op.format("matmul")})
    expect(status != 0 and "'shape_matmul'" in message, message)
    status, message, lists = generate(root, {"shape/matmul.cpp": op.format("shape_matmul")})
    expect(status == 0, message)
    for called in ("  register_matmul(registry);", "  register_shape_matmul(registry);"):
        expect(called in lists, called, "is not called")


if __name__ == "__main__":
    main()
