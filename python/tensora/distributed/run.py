"""Starts a program once for each rank of this host, as torchrun does:

    python -m tensora.distributed.run --nproc_per_node 4 train.py arguments…

Each process finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment. When
one fails, the others are ended, and its exit status is returned. Ranks end with the launcher, even if it is killed.
Ranks on several hosts are started by mpirun or `tensora launch --hosts`.
"""
import argparse
import ctypes
import glob
import os
import signal
import socket
import subprocess
import sys
import time
import uuid

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _parser():
    parser = argparse.ArgumentParser(prog="torchrun", description="Starts a program once for each rank of this host.")

    def option(name, **settings):
        parser.add_argument(f"--{name}", *([f"--{name.replace('_', '-')}"] if "_" in name else []), **settings)
    option("nproc_per_node", default="1", help="ranks to start: a number, cpu, gpu or auto; default: 1")
    option("nnodes", default="1", help="hosts; only 1")
    option("node_rank", type=int, default=0, help="number of this host; only 0")
    option("master_addr", default="127.0.0.1", help="address at which rank 0 listens; default: 127.0.0.1")
    option("master_port", type=int, default=0, help="its port; default: a free one")
    option("standalone", action="store_true", help="one host, a free port: the default")
    option("max_restarts", type=int, default=0, help="how often a job that failed is started again; default: 0")
    option("rdzv_backend", default="static", help="accepted for one host")
    option("rdzv_endpoint", default="", help="ADDRESS:PORT at which rank 0 listens")
    option("rdzv_id", default="none", help="name of the job")
    option("run_path", action="store_true", help="run the script by runpy; as without it")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    option("no_python", action="store_true", help="the program is an executable, not a Python script")
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _ranks(text):
    if text.isdigit() and int(text) > 0:
        return int(text)
    from .. import _C
    from ..cuda import device_count
    if text in ("gpu", "auto") and _C._is_available("cuda"):
        return device_count()
    if text in ("cpu", "auto"):
        return len(os.sched_getaffinity(0))
    raise ValueError(f"torchrun: --nproc_per_node must be a number of ranks, cpu, gpu or auto, got {text}")


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _command(arguments):
    if arguments.no_python:
        return [arguments.training_script, *arguments.training_script_args]
    module = ["-m"] if arguments.module else []
    return [sys.executable, "-u", *module, arguments.training_script, *arguments.training_script_args]


def _die_with(parent):
    """In a rank before its program begins: the system kills it when the launcher is gone."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _environment(rank, ranks, address, port, token, arguments, attempt):
    threads = max(1, len(os.sched_getaffinity(0)) // ranks)
    chosen = {"OMP_NUM_THREADS": str(threads), "TENSORA_NUM_THREADS": str(threads)}
    return {**chosen, **os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": str(ranks), "MASTER_ADDR": address, "MASTER_PORT": str(port), "TENSORA_TOKEN": token,
            "TENSORA_LAUNCHER": str(os.getpid()), "TORCHELASTIC_RUN_ID": arguments.rdzv_id, "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(arguments.max_restarts)}


def _end(processes, patience=5):
    """Ends those that still run: by SIGTERM, and after `patience` seconds by SIGKILL."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    limit = time.monotonic() + patience
    for process in processes:
        try:
            process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _attempt(arguments, ranks, attempt):
    """Runs all ranks once; the exit status of the first that failed, 0 if none did."""
    address, _, port = (arguments.rdzv_endpoint or f"{arguments.master_addr}:{arguments.master_port}").partition(":")
    port = int(port or 0) or _free_port()
    address = "127.0.0.1" if address in ("", "localhost") else address
    processes, token, launcher = [], uuid.uuid4().hex, os.getpid()
    try:
        for rank in range(ranks):
            environment = _environment(rank, ranks, address, port, token, arguments, attempt)
            processes.append(subprocess.Popen(_command(arguments), env=environment,
                                              preexec_fn=lambda: _die_with(launcher)))
        failed = None
        while failed is None:
            ends = [process.poll() for process in processes]  # of all, also behind one that still runs
            failed = next((rank for rank, end in enumerate(ends) if end), None)
            if None not in ends:
                break
            time.sleep(0.02)
    finally:
        _end(processes)
        for left in glob.glob(f"/dev/shm/tensora-{token}-*"):  # by ranks that were killed while they made it
            os.unlink(left)
    if failed is None:
        return 0
    status = processes[failed].returncode
    print(f"torchrun: rank {failed} failed with exit status {status}", file=sys.stderr)
    return status if status > 0 else 128 - status


def _end_by_signal(number, frame):
    del frame
    raise SystemExit(128 + number)


def main(args=None):
    arguments = _parser().parse_args(args)
    if arguments.nnodes not in ("1", "1:1") or arguments.node_rank:
        raise NotImplementedError("torchrun: ranks on several hosts are started by mpirun or tensora launch --hosts")
    ranks = _ranks(arguments.nproc_per_node)
    signal.signal(signal.SIGTERM, _end_by_signal)  # as Ctrl-C: the ranks get SIGTERM and time to end
    for attempt in range(arguments.max_restarts + 1):
        status = _attempt(arguments, ranks, attempt)
        if status == 0:
            return
    sys.exit(status)


if __name__ == "__main__":
    main()
