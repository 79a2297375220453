"""A training job whose disk becomes full ends on all ranks with an error, keeps its last checkpoint, and goes on with the
same losses when there is room again."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kill_test import command, environment, left_behind, losses, shared_memory

SKIPPED = 77
STEPS = 150


def run(words, **options):
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, env=environment(), **options)


def fill(path):
    """Writes until the disk is full."""
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass


def checkpoints(folder):
    return sorted(folder.glob("**/index.json"))


def check(cli, folder):
    small, text = folder / "small", folder / "text.txt"
    text.write_text("".join(f"the number {i * i % 97} follows {i}.\n" for i in range(600)))
    small.mkdir()
    memory = shared_memory()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
    whole = run(command(cli, text, folder / "whole", "zero1", STEPS, 0))
    assert whole.returncode == 0, whole.stdout + whole.stderr
    words = command(cli, text, small / "run", "zero1", STEPS, 0)
    with open(folder / "log", "wb") as log:
        job = subprocess.Popen(words, stdout=log, stderr=log, env=environment())
        try:
            until = time.monotonic() + 120
            while not checkpoints(small) and time.monotonic() < until:
                time.sleep(0.002)
            fill(small / "filler")
            began = time.monotonic()
            status = job.wait(timeout=120)
        finally:
            if job.poll() is None:
                job.kill()
                job.wait()
    output = (folder / "log").read_text(errors="replace")
    assert status != 0, f"the job did not notice the full disk:\n{output}"
    assert "No space left on device" in output, f"the reason is missing:\n{output}"
    assert checkpoints(small), f"no checkpoint is left:\n{output}"
    print(f"the job ended {time.monotonic() - began:.1f} s after the disk was full:\n{output[-600:]}")
    (small / "filler").unlink()
    again = run([*words, "--resume"])
    assert again.returncode == 0, again.stdout + again.stderr
    assert losses(small / "run") == losses(folder / "whole"), "other losses after the disk was full"
    left = left_behind(memory)
    assert not left, f"left behind: {left}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cli", required=True, help="the program tensora")
    parser.add_argument("--folder", help="a temporary folder, in a mount namespace of its own")
    arguments = parser.parse_args()
    if arguments.folder:
        return check(arguments.cli, Path(arguments.folder))
    namespace = ["unshare", "--mount"]
    probe = run([*namespace, "sh", "-c", "mount -t tmpfs tmpfs /mnt"])
    if probe.returncode != 0:
        print(f"skipped: no file system can be mounted here: {probe.stderr}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([*namespace, sys.executable, *sys.argv, "--folder", folder], check=False,
                              env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1")).returncode


if __name__ == "__main__":
    sys.exit(main())
