"""Checks that libtensora.so is no larger than a limit, in bytes.

A program that uses tensors, modules and optimizers loads this library alone. What only some programs
need belongs to a library of its own, as libtensora_llm.so does.
"""
import argparse
import pathlib
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--limit", type=int, required=True)
    arguments = parser.parse_args()
    size = arguments.library.stat().st_size
    print(f"{arguments.library.name}: {size / 1e6:.2f} MB of {arguments.limit / 1e6:.2f} MB")
    if size > arguments.limit:
        sys.exit(f"{arguments.library.name} is larger than {arguments.limit} bytes: share code, or move what few "
                 "programs need into a library of its own (cmake/llm.cmake)")


if __name__ == "__main__":
    main()
