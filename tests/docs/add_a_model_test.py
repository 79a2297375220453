#!/usr/bin/env python3
"""Performs the steps of docs/add-a-model.md in a scratch copy: writes the architecture's file, runs
the generator, links the library anew, and runs the page's program, which prints what the page says.
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from add_an_op_test import Builder  # noqa: E402


def main():
    b = Builder.from_arguments("add-a-model")
    model, program = b.perform()
    changed = b.changed_sources()
    if [p.name for p in changed] != ["architectures.cpp"]:
        raise SystemExit(f"one list should have changed, not {[p.name for p in changed]}")
    flags = b.flags_like("llm/models/llama.cpp", "")
    fresh = [str(b.compile(source, flags, "upper")) for source in (model, *changed)]
    compiler = flags[0]
    library = b.link_library(compiler, lambda tag: fresh if tag == "upper" else [],
                             {"architectures.cpp"})
    binary = b.scratch / "program"
    subprocess.run([compiler, *b.sanitizers(), str(b.compile(program, flags, "program")),
                    str(library), "-o", str(binary), f"-Wl,-rpath,{b.scratch}", "-lpthread"],
                   check=True)
    b.expect_output([binary, b.scratch / "mynah.gguf"])


if __name__ == "__main__":
    main()
