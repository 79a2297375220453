"""Checks the ELF files of a build or an installation: run paths, relocations, stacks.

A RUNPATH element that is empty or relative makes the loader take libraries from the working
directory, so a file that somebody left there would run.
"""
import argparse
import pathlib
import re
import subprocess
import sys


def elf_files(folders):
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.is_symlink() or not path.is_file() or path.suffix in (".o", ".a"):
                continue
            with open(path, "rb") as file:
                head = file.read(18)
            if head[:4] == b"\x7fELF" and head[16] in (2, 3):  # programs and shared libraries
                yield path


def readelf(path):
    return subprocess.run(["readelf", "-dlW", path], capture_output=True, text=True, check=True).stdout


def faults(text):
    """What is wrong with a file of which readelf says `text`."""
    found = []
    for name, value in re.findall(r"\((RPATH|RUNPATH)\)\s+Library \S+: \[(.*)\]", text):
        for element in value.split(":"):
            if not element:
                found.append(f"{name} has an empty element: [{value}]")
            elif not element.startswith(("/", "$ORIGIN")):
                found.append(f"{name} has a relative element: [{value}]")
    if "GNU_RELRO" not in text:
        found.append("relocations stay writable (no GNU_RELRO)")
    if not re.search(r"\(FLAGS\).*BIND_NOW|\(FLAGS_1\).*\bNOW\b|\(BIND_NOW\)", text):
        found.append("symbols are resolved at their first use (no BIND_NOW)")
    if re.search(r"GNU_STACK.*RWE", text):
        found.append("the stack is executable")
    return found


def self_test():
    good = "(RUNPATH) Library runpath: [$ORIGIN:/opt/x]\n(FLAGS_1) Flags: NOW\nGNU_RELRO\nGNU_STACK 0x0 RW 0x10"
    assert faults(good) == [], faults(good)
    for bad in ("$ORIGIN:", ":$ORIGIN", "$ORIGIN::/opt/x", "lib", "$ORIGIN:./lib"):
        assert len(faults(good.replace("$ORIGIN:/opt/x", bad))) == 1, bad
    assert len(faults("GNU_STACK 0x0 RWE 0x10")) == 3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+")
    arguments = parser.parse_args()
    self_test()
    checked, wrong = 0, 0
    for path in elf_files(arguments.folders):
        checked += 1
        for fault in faults(readelf(path)):
            wrong += 1
            print(f"{path}: {fault}")
    if checked == 0:
        sys.exit(f"no ELF file in {arguments.folders}")
    print(f"{checked} files checked, {wrong} faults")
    sys.exit(wrong != 0)


if __name__ == "__main__":
    main()
