#!/usr/bin/env python3
"""`./dev bench core`: our figures beside LibTorch's, from one run.

Each round runs ours, LibTorch as installed, and LibTorch tuned (a malloc that keeps its memory), one after the other; the table shows the medians over the rounds. A row of
ours whose result was wrong counts as a failure, whatever its speed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HIGHER_IS_BETTER = {"GB/s"}


def find_libtorch(python):
    """Version, include folders, library folder and library names of PyTorch: that of the wheel which
    `python` imports (the peer is the newest one: pip install torch), or else Debian's libtorch-dev."""
    find = ("import importlib.util, pathlib; spec = importlib.util.find_spec('torch'); "
            "print(pathlib.Path(spec.origin).parent if spec else '')")
    for interpreter in [python] if python else [sys.executable, shutil.which("python3")]:
        if not interpreter:
            continue
        done = subprocess.run([interpreter, "-c", find], capture_output=True, text=True)
        folder = pathlib.Path(done.stdout.strip() or "/nowhere")
        if (folder / "include/torch").exists():
            version = re.search(r"__version__ = '([^']+)'", (folder / "version.py").read_text())
            include = folder / "include"
            return (version.group(1), [include, include / "torch/csrc/api/include"], folder / "lib",
                    ["torch_cpu", "c10"])
    headers = pathlib.Path("/usr/include/torch/csrc/api/include")
    if headers.exists():
        return "Debian's", [headers], None, ["torch", "torch_cpu", "c10"]
    return None


def build_libtorch_peer(build, python):
    """The path of the LibTorch program, or None with a sentence why there is none."""
    found = find_libtorch(python)
    if not found:
        print("PyTorch was not found: no peer columns. In a virtual environment, `pip install torch`, "
              "and name its interpreter with --python", file=sys.stderr)
        return None
    version, includes, libraries, names = found
    print(f"the peer is PyTorch {version}", file=sys.stderr)
    source = ROOT / "bench/peers/libtorch_core.cpp"
    program = build / f"peers/libtorch_core-{re.sub(r'[^0-9a-z.]', '_', version)}"
    newest = max(source.stat().st_mtime, (ROOT / "bench/timing.h").stat().st_mtime)
    if program.exists() and program.stat().st_mtime > newest:
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    print("building the LibTorch peer …", file=sys.stderr)
    command = ["g++", "-std=c++20", "-O2", "-w", f"-I{ROOT}", *(f"-I{i}" for i in includes),
               str(source), "-o", str(program)]
    if libraries:
        command += [f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    command += [f"-l{name}" for name in names]
    if subprocess.run(command).returncode != 0:
        print("the LibTorch peer could not be built: no peer columns", file=sys.stderr)
        return None
    return program


def tuned_environment():
    return dict(os.environ, MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_="100000000000",
                MALLOC_TOP_PAD_="268435456")


def run(program, pattern, environment=None):
    result = subprocess.run([str(program), pattern], env=environment, stdout=subprocess.PIPE,
                            text=True)
    rows = {}
    for line in result.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            rows[row["name"]] = row
    return rows


def median(samples):
    return statistics.median(samples) if samples else None


NEIGHBOUR_ROWS = ("matmul_", "mlp_")


def with_neighbour(program):
    """The small products and the training step with one busy process beside them."""
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        return {f"{name}_with_neighbour": row for pattern in NEIGHBOUR_ROWS
                for name, row in run(program, pattern).items()}
    finally:
        neighbour.kill()
        neighbour.wait()


def speedup(unit, ours, theirs):
    if ours is None or theirs is None:
        return None
    return ours / theirs if unit in HIGHER_IS_BETTER else theirs / ours


def show(rows):
    print(f"{'row':28}{'unit':>7}{'ours':>11}{'LibTorch':>11}{'tuned':>11}"
          f"{'x LibTorch':>12}{'x tuned':>10}")
    text = lambda value, form: "-" if value is None else format(value, form)
    for row in rows:
        print(f"{row['name']:28}{row['unit']:>7}{row['ours']:>11.4g}"
              f"{text(row['libtorch'], '.4g'):>11}{text(row['tuned'], '.4g'):>11}"
              f"{text(row['speedup'], '.2f'):>12}{text(row['speedup_tuned'], '.2f'):>10}"
              f"{'' if row['correct'] else '   WRONG RESULT'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--filter", default="", help="only rows whose name contains this")
    parser.add_argument("--python", help="the interpreter whose PyTorch is the peer")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    ours_program = arguments.build / "bin/tensora-bench-core"
    peer = build_libtorch_peer(arguments.build, arguments.python)
    ours, default, tuned = {}, {}, {}
    correct = {}
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds} …", file=sys.stderr)
        for name, row in run(ours_program, arguments.filter).items():
            ours.setdefault(name, {"unit": row["unit"], "samples": []})["samples"].append(
                row["value"])
            correct[name] = correct.get(name, True) and row["correct"]
        for name, row in with_neighbour(ours_program).items() if not arguments.filter else ():
            ours.setdefault(name, {"unit": row["unit"], "samples": []})["samples"].append(row["value"])
            correct[name] = correct.get(name, True) and row["correct"]
        if peer and not arguments.filter:
            for name, row in with_neighbour(peer).items():
                default.setdefault(name, []).append(row["value"])
        if peer:
            for store, environment in ((default, None), (tuned, tuned_environment())):
                for name, row in run(peer, arguments.filter, environment).items():
                    store.setdefault(name, []).append(row["value"])
    rows = []
    for name, entry in ours.items():
        value, unit = median(entry["samples"]), entry["unit"]
        theirs, theirs_tuned = median(default.get(name)), median(tuned.get(name))
        rows.append({"name": name, "unit": unit, "ours": value, "libtorch": theirs,
                     "tuned": theirs_tuned, "speedup": speedup(unit, value, theirs),
                     "speedup_tuned": speedup(unit, value, theirs_tuned),
                     "correct": correct[name]})
    show(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(0 if all(correct.values()) else 1)


if __name__ == "__main__":
    main()
