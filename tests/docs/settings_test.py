#!/usr/bin/env python3
"""Checks that docs/settings.md lists every environment variable that the library reads and every option of
the build, that docs/dtypes.md lists every dtype, and that variables are read by tensora/base/settings.h alone.
"""
import argparse
import pathlib
import re


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    root = parser.parse_args().root.resolve()
    rows = re.findall(r"^\| (`TENSORA_[\w`, ]+) \|", (root / "docs/settings.md").read_text(), re.M)
    listed = {name for row in rows for name in re.findall(r"TENSORA_\w+", row)}
    problems, read = [], set()
    for path in sorted((root / "tensora").rglob("*")):
        if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
            continue
        text, name = path.read_text(), path.relative_to(root).as_posix()
        read |= set(re.findall(r'setting\(\s*"(TENSORA_\w+)"', text))
        if "getenv" in text and name != "tensora/base/settings.cpp":
            problems.append(f"{name} calls getenv; tensora/base/settings.h is the way")
    for path in (root / "python/tensora").rglob("*.py"):
        read |= set(re.findall(r'environ(?:\.get\(|\[)"(TENSORA_\w+)"', path.read_text()))
    if len(read) < 4:
        problems.append(f"only {sorted(read)} were found in the sources")
    options = set()
    for path in [root / "CMakeLists.txt", *sorted((root / "cmake").glob("*.cmake"))]:
        text = path.read_text()
        options |= set(re.findall(r"\boption\((TENSORA_\w+)", text))
        options |= set(re.findall(r"\bset\((TENSORA_\w+)[^)]*\sCACHE\s", text))
    if len(options) < 8:
        problems.append(f"only the options {sorted(options)} were found in CMake's files")
    problems += [f"{variable} is not in docs/settings.md" for variable in sorted((read | options) - listed)]
    dtypes = re.findall(r'^ +\{k\w+, "(\w+)", Category::', (root / "tensora/core/dtype.h").read_text(), re.M)
    described = set(re.findall(r"\w+", (root / "docs/dtypes.md").read_text()))
    if len(dtypes) < 20:
        problems.append(f"only the dtypes {dtypes} were found in tensora/core/dtype.h")
    problems += [f"{dtype} is not in docs/dtypes.md" for dtype in dtypes if dtype not in described]
    if problems:
        raise SystemExit("\n".join(problems))
    print(f"{len(read)} settings of the library and {len(options)} options of the build are listed")


if __name__ == "__main__":
    main()
