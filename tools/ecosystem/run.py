#!/usr/bin/env python3
"""Runs the programs of the package programs on Tensora and on PyTorch, compares their numbers and prints the score.

    tools/ecosystem/run.py --python ENV/bin/python --reference TORCH/bin/python [--sources DIR] [--package build/python] [NAME...]

`--python` is an environment with the libraries and without PyTorch, `--reference` one with both. DIR has checkouts of
public repositories in folders of their names: DIR/examples is that of github.com/pytorch/examples; programs of
repositories that are not there are skipped. Run by hand: nothing of the libraries or repositories is part of this one.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from programs import PROGRAMS  # noqa: E402
from programs.scripts import SOURCES  # noqa: E402


def run(command, environment, limit):
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"took longer than {limit} s"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return lines[-1][:300]


def is_there(program, sources):
    """Whether the repository that a program needs is there, if it needs one."""
    repository = getattr(program, "repository", None)
    return repository is None or bool(sources and (pathlib.Path(sources) / repository).is_dir())


def difference(ours, theirs):
    """What differs, as text; None if nothing does."""
    import numpy
    if set(ours.files) != set(theirs.files):
        return f"results {sorted(ours.files)}, PyTorch's {sorted(theirs.files)}"
    for name in ours.files:
        a, b = ours[name], theirs[name]
        if a.shape != b.shape:
            return f"{name} has shape {a.shape}, PyTorch's {b.shape}"
        if not numpy.allclose(a, b, rtol=2e-3, atol=2e-4, equal_nan=True):
            return f"{name} differs by up to {abs(a.astype(float) - b.astype(float)).max():.2g}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs, or beginnings of their names; default: all")
    parser.add_argument("--python", required=True, help="the interpreter that runs Tensora")
    parser.add_argument("--reference", required=True, help="the interpreter that runs PyTorch")
    parser.add_argument("--sources", help="the folder with the checkouts of public repositories")
    parser.add_argument("--package", default="build/python", help="where the package tensora is; default: build/python")
    parser.add_argument("--keep", help="folder for PyTorch's results, which are computed once")
    parser.add_argument("--limit", type=int, default=300, help="seconds per program; default: 300")
    arguments = parser.parse_args()
    import numpy
    named = [name for name in PROGRAMS if not arguments.names or name.startswith(tuple(arguments.names))]
    chosen = [name for name in named if is_there(PROGRAMS[name], arguments.sources)]
    ours_env = {**os.environ, "PYTHONPATH": str(pathlib.Path(arguments.package).resolve()), "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
    theirs_env = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0"}
    if arguments.sources:
        ours_env[SOURCES] = theirs_env[SOURCES] = str(pathlib.Path(arguments.sources).resolve())
    passed, script = 0, str(HERE / "run_one.py")
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(arguments.keep or folder)
        kept.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            ours, theirs = os.path.join(folder, f"{name}.ours.npz"), str(kept / f"{name}.npz")
            begin = time.time()
            wrong = None
            if not os.path.exists(theirs):
                wrong = run([arguments.reference, script, name, theirs], theirs_env, arguments.limit)
                wrong = wrong and f"fails with PyTorch: {wrong}"
            wrong = wrong or run([arguments.python, "-m", "tensora.compat", script, name, ours], ours_env, arguments.limit)
            wrong = wrong or difference(numpy.load(ours), numpy.load(theirs))
            passed += wrong is None
            print(f"{'same' if wrong is None else 'FAIL'}  {name}  ({time.time() - begin:.0f} s)"
                  + (f": {wrong}" if wrong else ""), flush=True)
    for name in named:
        if name not in chosen:
            print(f"skip  {name}: needs {PROGRAMS[name].repository} in the folder that --sources names")
    print(f"{passed} of {len(chosen)} programs give PyTorch's numbers; {len(named) - len(chosen)} skipped")
    return passed != len(chosen)


if __name__ == "__main__":
    sys.exit(main())
