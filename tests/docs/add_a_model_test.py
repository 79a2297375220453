#!/usr/bin/env python3
"""Performs the steps of docs/add-a-model.md in a scratch copy: writes the architecture's file, runs
the generator, links the library anew, and runs the page's program, which prints what the page says.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from add_an_op_test import Builder, apply_blocks, code_blocks  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    root, build = arguments.root.resolve(), arguments.build.resolve()
    page = root / "docs/add-a-model.md"
    scratch = build / "add_a_model"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    b = Builder(root, build, scratch)
    shutil.copytree(root / "tensora", b.tree / "tensora")
    written = apply_blocks(code_blocks(page), b.tree)
    model, program = written
    subprocess.run([sys.executable, str(root / "cmake/generate.py"), str(b.tree),
                    str(b.generated)], check=True)
    changed = b.changed_sources()
    if [p.name for p in changed] != ["architectures.cpp"]:
        raise SystemExit(f"one list should have changed, not {[p.name for p in changed]}")
    flags = b.flags_like("llm/models/llama.cpp", "")
    fresh = [str(b.compile(source, flags, "upper")) for source in (model, *changed)]
    compiler = flags[0]
    library = b.link_library(compiler, lambda tag: fresh if tag == "upper" else [],
                             {"architectures.cpp"})
    binary = scratch / "program"
    subprocess.run([compiler, *b.sanitizers(), str(b.compile(program, flags, "program")),
                    str(library), "-o", str(binary), f"-Wl,-rpath,{scratch}", "-lpthread"],
                   check=True)
    result = subprocess.run([str(binary), str(scratch / "mynah.gguf")], text=True,
                            capture_output=True)
    print(result.stdout, result.stderr)
    expected = re.search(r"```text\n(.*?)```", page.read_text(), re.S).group(1)
    if result.returncode != 0 or result.stdout != expected:
        raise SystemExit(f"the page says\n{expected}")


if __name__ == "__main__":
    main()
