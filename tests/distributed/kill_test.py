"""Kills ranks of a training job at random moments; `tensora launch --restarts` resumes it, and the losses and the
model are those of a job that was left alone, and no process and no shared memory is left behind."""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


MARK = f"KILL_TEST={os.getpid()}"


def environment():
    kept = {k: v for k, v in os.environ.items() if not re.match(r"(TENSORA|OMPI|PRTE|PMI|PMIX|SLURM)_", k)}
    return {**kept, "TENSORA_NUM_THREADS": "1", **dict([MARK.split("=")])}


def orphans():
    """The processes of the jobs that still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if MARK.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            pass
    return found


def left_behind(memory):
    """What jobs that have ended left: processes, and shared memory beside `memory`. A process that was just killed may
    still be about to go, and another job on this machine may be about to begin."""
    until = time.monotonic() + 10
    while (left := [*orphans(), *(shared_memory() - memory)]) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def shared_memory():
    return set(map(str, Path("/dev/shm").glob("tensora-*")))


def command(cli, text, out, parallel, steps, restarts):
    train = ["train", "lm", "--parallel", parallel, "--text", text, "--out", out, "--tokenizer", "bytes",
             "--width", "16", "--heads", "2", "--kv-heads", "1", "--layers", "2", "--hidden", "32", "--context", "16",
             "--batch", "2", "--steps", steps, "--sample-tokens", "0", "--clip-norm", "0", "--warmup", "2",
             "--validate-batches", "1", "--checkpoint-every", "2"]
    return [str(word) for word in [cli, "launch", "-n", "2", "--restarts", restarts, "--patience", "0.2", "--", cli,
                                   *train]]


def losses(run):
    """The loss of every step, as the log has it."""
    found = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        for key, value in entry.items():
            if key.startswith("loss/train"):
                assert entry["step"] not in found, f"step {entry['step']} is in the log twice"
                found[entry["step"]] = value
    return found


def children(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in listed.stdout.split()]


def run_with_kills(words, kills, longest, chance, log):
    """Runs the job and kills one of its ranks up to `kills` times; how often it did."""
    done = 0
    with open(log, "wb") as output:
        job = subprocess.Popen(words, stdout=output, stderr=output, env=environment())
        try:
            while done < kills and job.poll() is None:
                time.sleep(chance.uniform(0, longest))
                ranks = children(job.pid)
                if not ranks:
                    continue
                try:
                    os.kill(chance.choice(ranks), signal.SIGKILL)
                    done += 1
                except ProcessLookupError:
                    continue
            job.wait(timeout=300)
        finally:
            if job.poll() is None:
                job.kill()
                job.wait()
    return job.returncode, done


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cli", required=True, help="the program tensora")
    parser.add_argument("--kills", type=int, default=200, help="how many ranks are killed (default 200)")
    parser.add_argument("--steps", type=int, default=40, help="steps of each job (default 40)")
    parser.add_argument("--parallel", default="zero1", help="as in `tensora train` (default zero1)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default 1)")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    memory, began = shared_memory(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text.txt"
        text.write_text("".join(f"the number {i * i % 97} follows {i}.\n" for i in range(600)))
        words = command(arguments.cli, text, folder / "whole", arguments.parallel, arguments.steps, 0)
        start = time.monotonic()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(),
                       timeout=300)
        longest = 1.2 * (time.monotonic() - start)
        expected = losses(folder / "whole")
        assert len(expected) == arguments.steps, f"expected the losses of {arguments.steps} steps, got {expected}"
        model = (folder / "whole" / "model" / "model.safetensors").read_bytes()
        total = rounds = 0
        while total < arguments.kills:
            run, log = folder / f"run-{rounds}", folder / f"log-{rounds}"
            words = command(arguments.cli, text, run, arguments.parallel, arguments.steps, 10000)
            status, kills = run_with_kills(words, min(20, arguments.kills - total), longest, chance, log)
            total, rounds = total + kills, rounds + 1
            output = log.read_text(errors="replace")
            assert status == 0, f"run {rounds} ended with status {status}:\n{output[-4000:]}"
            assert losses(run) == expected, f"run {rounds} has other losses:\n{output[-4000:]}"
            assert (run / "model" / "model.safetensors").read_bytes() == model, f"run {rounds} has another model"
            assert not (left := left_behind(memory)), f"run {rounds} left behind: {left}"
            print(f"run {rounds}: {kills} kills, equal losses and model, nothing left behind", flush=True)
    print(f"{total} kills in {rounds} runs, {time.monotonic() - began:.0f} s: all resumed with equal losses and models, "
          "no process and no shared memory was left")


if __name__ == "__main__":
    sys.exit(main())
