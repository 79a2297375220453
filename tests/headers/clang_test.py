"""Compiles the public headers with every clang from 14 on that is installed; skips where there is none."""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SKIPPED = 77
NAMES = [f"clang++-{version}" for version in range(14, 30)] + ["clang++"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", action="append", required=True)
    arguments = parser.parse_args()
    compilers = {Path(found).resolve(): found for name in NAMES if (found := shutil.which(name))}
    if not compilers:
        print("no clang++ is installed")
        return SKIPPED
    for compiler in compilers.values():
        command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                   *(f"-I{folder}" for folder in arguments.include), str(HERE / "formatted.cpp")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{compiler} refuses the headers:\n{done.stderr}")
        print(f"{compiler}: the headers compile")
    return 0


if __name__ == "__main__":
    sys.exit(main())
