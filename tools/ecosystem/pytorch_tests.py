#!/usr/bin/env python3
"""Runs PyTorch's own Python tests on Tensora and prints how many pass.

    tools/ecosystem/pytorch_tests.py --python ENV/bin/python --source PYTORCH [--package build/python] [--keep DIR] FILE...

PYTORCH is a checkout of PyTorch (its folders test and torch/testing are used), FILE a file of its folder test, such as
nn/test_init.py. ENV has pytest, pytest-timeout, numpy, expecttest, hypothesis and typing_extensions. --reference runs
PyTorch itself with its own torch.testing._internal, for comparison. Results of each test go to DIR/FILE.jsonl. Run by hand:
nothing of PyTorch is part of this repository.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def results(path):
    """The last outcome of each test in a file of results; tests that began and did not end crashed."""
    found = {}
    if path.exists():
        for line in path.read_text().splitlines():
            record = json.loads(line)
            found[record["test"]] = record
    for record in found.values():
        if record["outcome"] == "began":
            record["outcome"], record["message"] = "failed", "the process ended or took too long"
    return found


def run_file(file, arguments, path):
    """Runs all tests of a file; where one ends the process, goes on behind it."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu"}
    if not arguments.reference:
        environment["PYTHONPATH"] = str(pathlib.Path(arguments.package).resolve())
    command = [arguments.python, str(HERE / "pytorch_tests_worker.py"), arguments.source, file, str(path),
               "pytorch" if arguments.reference else "tensora", str(arguments.every), *(["-k", arguments.k] if arguments.k else []),
               *(["--timeout", str(arguments.limit)])]
    while True:
        before = len(results(path))
        with open(path.with_suffix(".log"), "a") as log:
            status = subprocess.run(command, env=environment, stdout=log, stderr=log, cwd=tempfile.gettempdir()).returncode
        if status in (0, 1, 5) or len(results(path)) == before:
            return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="files of PyTorch's folder test")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the tests; default: this one")
    parser.add_argument("--source", required=True, help="the checkout of PyTorch")
    parser.add_argument("--package", default="build/python", help="where the package tensora is; default: build/python")
    parser.add_argument("--keep", help="folder for the results of each test; default: a temporary one")
    parser.add_argument("--limit", type=int, default=60, help="seconds per test; default: 60")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run each Nth test; default: 1, all")
    parser.add_argument("-k", help="run the tests that match, as pytest's -k")
    parser.add_argument("--reference", action="store_true", help="run PyTorch itself")
    arguments = parser.parse_args()
    arguments.source = str(pathlib.Path(arguments.source).resolve())
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(arguments.keep or folder).resolve()
        kept.mkdir(parents=True, exist_ok=True)
        for file in arguments.files:
            path = kept / (file.replace("/", ".").removesuffix(".py") + ".jsonl")
            path.unlink(missing_ok=True)
            path.with_suffix(".log").unlink(missing_ok=True)
            status = run_file(file, arguments, path)
            counts = collections.Counter(record["outcome"] for record in results(path).values())
            run = counts["passed"] + counts["failed"]
            print(f"{file}: {counts['passed']} of {run} pass" + (f" ({100 * counts['passed'] / run:.0f} %)" if run else "")
                  + f", {counts['skipped']} skipped" + ("" if status in (0, 1) else f", pytest's status {status}"), flush=True)


if __name__ == "__main__":
    main()
