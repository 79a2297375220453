"""All-reduce of Tensora (local and mpi), MPI and PyTorch's gloo in one run, on this machine.

Peers that are not installed are left out: MPI needs mpicc and mpirun, gloo a Python with PyTorch (--python).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GLOO = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo"); torch.set_num_threads(1)
for size in (4, 1 << 10, 64 << 10, 1 << 20, 4 << 20, 25 << 20, 64 << 20):
    x, calls, times = torch.zeros(size // 4), 200 if size < 100000 else 30 if size < 10**7 else 7, []
    for _ in range(calls):
        start = time.perf_counter(); dist.all_reduce(x); times.append(time.perf_counter() - start)
    if dist.get_rank() == 0: print("all_reduce", size, sorted(times)[calls // 2] * 1e6, flush=True)
"""


def environment(**changes):
    return {**os.environ, "TENSORA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **changes}


def each_rank(command, ranks, rank_name, size_name, **common):
    """Starts the ranks with torchrun's or Tensora's variables; the output of rank 0."""
    started = [subprocess.Popen(command, env=environment(**{rank_name: str(r), size_name: str(ranks)}, **common),
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for r in range(ranks)]
    return [process.communicate()[0] for process in started][0]


def local(program, ranks):
    return each_rank([program], ranks, "TENSORA_RANK", "TENSORA_WORLD_SIZE",
                     TENSORA_MASTER=f"127.0.0.1:{20000 + os.getpid() % 20000}")


def mpirun(program, ranks):
    command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "core" if ranks <= os.cpu_count() else "none",
               "--mca", "mpi_yield_when_idle", str(int(ranks > os.cpu_count())), program]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment()).stdout


def gloo(python, ranks):
    return each_rank([python, "-c", GLOO], ranks, "RANK", "WORLD_SIZE", MASTER_ADDR="127.0.0.1",
                     MASTER_PORT=str(20001 + os.getpid() % 20000))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--json", help="write the microseconds there")
    arguments = parser.parse_args()
    ours = str(Path(arguments.build) / "bin/tensora-bench-all_reduce")
    results, notes = {}, []

    def keep(name, text):
        results[name] = {int(size): float(us) for size, us in re.findall(r"all_reduce (\d+) ([\d.]+)", text)}
        notes.extend(f"{name}: {line}" for line in text.splitlines() if line.startswith("overlap"))

    keep("local", local(ours, arguments.ranks))
    with tempfile.TemporaryDirectory() as folder:
        peer = f"{folder}/peer"
        if shutil.which("mpicc") and shutil.which("mpirun") and subprocess.run(
                ["mpicc", "-O2", HERE / "peers/mpi_all_reduce.c", "-o", peer], check=False).returncode == 0:
            keep("mpi", mpirun(ours, arguments.ranks))
            keep("MPI_Allreduce", mpirun(peer, arguments.ranks))
    if subprocess.run([arguments.python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        keep("gloo", gloo(arguments.python, arguments.ranks))
    print(f"All-reduce of float32 sums, {arguments.ranks} ranks, microseconds")
    print(f"{'bytes':>10}" + "".join(f"{name:>15}" for name in results))
    for size in results["local"]:
        print(f"{size:>10}" + "".join(f"{times.get(size, float('nan')):>15.2f}" for times in results.values()))
    print("\n".join(notes))
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
