"""Configures a project that holds Tensora as a subdirectory: no tests, no benchmarks, no -Werror, and the
parent's own settings as they were."""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(ok, what):
    if not ok:
        sys.exit(f"as a subproject: {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--work", required=True, help="a folder that this test owns and empties")
    parser.add_argument("--compiler", required=True)
    arguments = parser.parse_args()
    work = Path(arguments.work)
    shutil.rmtree(work, ignore_errors=True)
    run(arguments.cmake, "-G", "Ninja", "-S", HERE, "-B", work, f"-DTENSORA_ROOT={HERE.parents[1]}",
        "-DTENSORA_CUDA=OFF", f"-DCMAKE_CXX_COMPILER={arguments.compiler}")

    cache = (work / "CMakeCache.txt").read_text()
    for option in ("TENSORA_BUILD_TESTS", "TENSORA_BUILD_BENCH", "TENSORA_BUILD_APPS", "TENSORA_WERROR",
                   "TENSORA_PCH"):
        expect(f"{option}:BOOL=OFF" in cache, f"{option} is not OFF")
    expect("CMAKE_BUILD_TYPE:STRING=\n" in cache, "the parent's build type was changed")
    commands = json.loads((work / "compile_commands.json").read_text())
    expect(not any("-Werror" in entry["command"] for entry in commands), "something is compiled with -Werror")
    expect(not any("/tests/" in entry["file"] or "/bench/" in entry["file"] for entry in commands),
           "tests or benchmarks are built")
    user = next(entry["command"] for entry in commands if entry["file"].endswith("main.cpp"))
    expect("-Wconversion" not in user, "the parent's sources get Tensora's warnings")
    expect("Total Tests: 0" in run("ctest", "-N", "--test-dir", work), "tests are registered")
    run(arguments.cmake, "--build", work, "--target", "user", "--", "-n")
    # With the headers found and the flags given to it, the user's source compiles.
    run("sh", "-c", f"{user} -fsyntax-only")
    print("subproject: configured without tests, benchmarks and -Werror; the user's source compiles")


if __name__ == "__main__":
    main()
