#!/usr/bin/env python3
"""Checks docs/settings.md: it lists every environment variable that the library reads, and nothing
reads one but by tensora/base/settings.h.
"""
import argparse
import pathlib
import re


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    root = parser.parse_args().root.resolve()
    listed = set(re.findall(r"^\| `(TENSORA_\w+)` \|", (root / "docs/settings.md").read_text(), re.M))
    problems, read = [], set()
    for path in sorted((root / "tensora").rglob("*")):
        if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
            continue
        text, name = path.read_text(), path.relative_to(root).as_posix()
        read |= set(re.findall(r'setting\(\s*"(TENSORA_\w+)"', text))
        if "getenv" in text and name != "tensora/base/settings.cpp":
            problems.append(f"{name} calls getenv; tensora/base/settings.h is the way")
    if len(read) < 4:
        problems.append(f"only {sorted(read)} were found in the sources")
    problems += [f"{variable} is not in docs/settings.md" for variable in sorted(read - listed)]
    if problems:
        raise SystemExit("\n".join(problems))
    print(f"{len(read)} settings of the library are listed")


if __name__ == "__main__":
    main()
