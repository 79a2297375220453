#!/usr/bin/env python3
"""Performs the steps of docs/add-a-framework.md: builds the page's plugin outside of Tensora's tree, lists it,
benchmarks it beside native, and then breaks it, which its self-test and the benchmark must find.
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from add_an_op_test import Builder  # noqa: E402


def run(builder, *words, code=0):
    environment = dict(os.environ, TENSORA_FRAMEWORK_PATH=str(builder.scratch))
    done = subprocess.run([builder.build / "bin/tensora", *map(str, words)], text=True, capture_output=True,
                          env=environment, cwd=builder.scratch, timeout=300)
    print(done.stdout, done.stderr)
    if done.returncode != code:
        raise SystemExit(f"tensora {' '.join(map(str, words))}: exit code {done.returncode} instead of {code}")
    return done.stdout


def build(builder, flags, source):
    compiled = builder.compile(source, flags, "plugin")
    subprocess.run([flags[0], "-shared", *builder.sanitizers(), str(compiled), f"-L{builder.build}/lib", "-ltensora_llm",
                    "-ltensora",
                    f"-Wl,-rpath,{builder.build}/lib", "-o", str(builder.scratch / "libtensora_framework_plain.so")],
                   check=True)


def main():
    builder = Builder.from_arguments("add-a-framework", parts=())
    original = builder.root / "tests/toy_framework/plain_framework.cpp"
    flags = [word.replace(str(builder.generated), f"{builder.build}/generated").replace(str(builder.tree), str(builder.root))
             for word in builder.flags_like("toy_framework/plain_framework.cpp", "")]
    source = builder.scratch / "plain_framework.cpp"
    source.write_text(original.read_text())
    build(builder, flags, source)
    listed = json.loads(run(builder, "frameworks", "plain", "--json"))[0]
    if not listed["usable"] or not listed["library"].startswith(str(builder.scratch)):
        raise SystemExit(f"the plugin that was built here is not the one that is found: {listed}")

    model = builder.root.parent / "shared/data/stories260K.gguf"
    compare = ["bench", model, "--framework", "native,plain", "-p", 16, "-n", 8, "-o", "json", "--no-bandwidth"]
    if model.exists():
        suite = json.loads(run(builder, *compare))["comparisons"][0]
        checked = suite["frameworks"][1]["equivalence"]
        if not checked["passed"] or checked["first_differing_token"] != -1:
            raise SystemExit(f"the plugin gives other tokens than native: {checked}")
        if any(len(test["results"]) != 2 for test in suite["tests"]):
            raise SystemExit("not every test was measured with both frameworks")

    # A norm that forgets its weight passes the compiler, but not the test.
    source.write_text(original.read_text().replace("config().norm_eps) * weight", "config().norm_eps) + 0 * weight"))
    if source.read_text() == original.read_text():
        raise SystemExit("the plugin has no norm to break")
    build(builder, flags, source)
    if "self_test: plain-cpu gave" not in run(builder, "frameworks", "plain", code=1):
        raise SystemExit("the broken plugin's self-test does not say what is wrong")
    if model.exists():
        failed = json.loads(run(builder, *compare, code=1))["comparisons"][0]["frameworks"][1]
        if failed["status"] != "failed" or "self_test" not in failed["reason"]:
            raise SystemExit(f"the broken plugin was measured: {failed}")


if __name__ == "__main__":
    main()
