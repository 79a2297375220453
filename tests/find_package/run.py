"""Installs the build, moves it elsewhere, and builds README's program with find_package(Tensora) from there."""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
from run_doc_snippets import blocks_of


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def readme_program():
    blocks = blocks_of("README.md", (HERE.parents[1] / "README.md").read_text())
    programs = [block.code for block in blocks if re.search(r"\bint\s+main\s*\(", block.code)]
    if not programs:
        sys.exit("README.md has no C++ block with a main")
    return programs[0]


def check_contents(prefix, built_program):
    """The Python package is a component that a plain install leaves out; the program is there and runs."""
    usual = {"bin", "include", "lib", "lib64", "share"}
    surplus = sorted(entry.name for entry in prefix.iterdir() if entry.name not in usual)
    python_parts = [str(found) for found in prefix.rglob("_C*")]
    if surplus or python_parts:
        sys.exit(f"cmake --install copied what does not belong into a prefix: {surplus + python_parts}")
    if built_program.exists():
        run(prefix / "bin/tensora", "--version", env={"PATH": "/usr/bin:/bin"})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--build", required=True, help="the build folder of Tensora")
    parser.add_argument("--work", required=True, help="a folder that this test owns and empties")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", default="", help="C++ flags that the library was built with, such as a sanitizer")
    arguments = parser.parse_args()

    work = Path(arguments.work)
    shutil.rmtree(work, ignore_errors=True)
    installed, moved, project = work / "first place", work / "second place", work / "project"
    project.mkdir(parents=True)
    run(arguments.cmake, "--install", arguments.build, "--prefix", installed)
    installed.rename(moved)
    check_contents(moved, Path(arguments.build) / "bin/tensora")

    (project / "example.cpp").write_text(readme_program())
    run(arguments.cmake, "-G", "Ninja", "-S", HERE, "-B", project, f"-DCMAKE_PREFIX_PATH={moved}",
        f"-DCMAKE_CXX_COMPILER={arguments.compiler}", f"-DCMAKE_CXX_FLAGS={arguments.flags}")
    run(arguments.cmake, "--build", project)
    # CMake links an imported library by its own path, so that nothing but the moved prefix is used.
    linked = run("ldd", project / "example")
    if str(moved) not in linked:
        sys.exit(f"the example does not use the installed library:\n{linked}")
    if "libtensora_llm" in linked:
        sys.exit(f"the example loads the engine of language models, which it does not use:\n{linked}")
    print(run(project / "example", cwd=work), end="")
    print(run(project / "language_model", cwd=work), end="")
    if list(moved.glob("lib*/libtensora_cuda.so*")):
        print(run(project / "graph", cwd=work), end="")
    else:
        print("Tensora::cuda: skipped, this build has no CUDA")
    print("find_package: installed, moved, found, built and ran README's program")


if __name__ == "__main__":
    main()
