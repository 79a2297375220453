#!/usr/bin/env python3
"""`./dev bench cuda_allocator`: our CUDA allocator beside PyTorch's, from one run.

Both programs run the same sequences of allocate and free from C++; a row is the time of one such
pair. Rounds alternate; the table shows the medians. Where PyTorch, or a compiler for its C++ side,
is not there, our rows stand alone.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build_peer(folder):
    """The path of the PyTorch program, or None with a sentence why there is none."""
    try:
        import torch
        from torch.utils import cpp_extension
    except ImportError:
        print("PyTorch is not installed: no peer column", file=sys.stderr)
        return None
    libraries = pathlib.Path(torch.__file__).parent / "lib"
    program = folder / "torch_cuda_allocator"
    program.parent.mkdir(parents=True, exist_ok=True)
    cuda = cpp_extension.CUDA_HOME or "/usr/local/cuda"
    abi = int(torch.compiled_with_cxx11_abi())
    command = ["g++", "-std=c++20", "-O2", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", f"-I{ROOT}",
               *(f"-I{path}" for path in cpp_extension.include_paths()), f"-I{cuda}/include",
               str(ROOT / "bench/peers/torch_cuda_allocator.cpp"), "-o", str(program),
               f"-L{libraries}", "-lc10_cuda", "-lc10", f"-L{cuda}/lib64", "-lcudart",
               f"-Wl,-rpath,{libraries}:{cuda}/lib64"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print("the PyTorch peer could not be built: no peer column\n" + done.stderr[:2000],
              file=sys.stderr)
        return None
    return program


def rows_of(program):
    done = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode not in (0, 77):
        print(f"{program.name} ended with {done.returncode}: {done.stdout[-500:]}", file=sys.stderr)
    if not lines:
        print(done.stdout, end="")
        sys.exit(done.returncode)
    return {row["name"]: row for row in map(json.loads, lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    programs = {"ours": arguments.build / "bin/tensora-bench-cuda_allocator"}
    rows_of(programs["ours"])  # says why, and ends, where there is no GPU
    if peer := build_peer(arguments.build / "peers"):
        programs["torch"] = peer
    samples = {}
    for _ in range(arguments.rounds):
        for who, program in programs.items():
            for name, row in rows_of(program).items():
                samples.setdefault(name, {}).setdefault(who, []).append(row)
    results = []
    print(f"{'ns per allocate and free':36} {'ours':>10} {'PyTorch':>10} {'ratio':>7}"
          f" {'MiB ours':>9} {'PyTorch':>9}")
    for name, by_program in samples.items():
        time = {who: statistics.median(row["ns_per_pair"] for row in rows)
                for who, rows in by_program.items()}
        held = {who: rows[-1]["reserved_mib"] for who, rows in by_program.items()}
        results.append({"name": name, "ns_per_pair": time, "reserved_mib": held})
        theirs = time.get("torch")
        print(f"{name:36} {time['ours']:10.1f} {theirs or float('nan'):10.1f}"
              f" {theirs / time['ours'] if theirs else float('nan'):6.2f}x"
              f" {held['ours']:9} {held.get('torch', '-'):>9}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
