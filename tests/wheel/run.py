"""Builds the files of a wheel, and checks that they need no newer system than manylinux_2_28 and work.

Which versions of functions a binary needs depends on the compiler and the C library that it was built with, so that limit
is checked where the wheel is known to keep it: GCC 12 and glibc 2.36 (Debian 12)."""
import argparse
import importlib.util
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "ZLIB": (1, 2, 9)}
PROGRAM = """
import math, sys, tensora
assert tensora.__file__.startswith(sys.argv[1]), tensora.__file__
x = tensora.linspace(0.1, 0.9, 1001)
for name in ("tan", "tanh", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "erf", "erfc", "exp2", "expm1",
             "log10", "log1p", "log2", "exp", "log"):
    f, g = getattr(tensora, name), getattr(math, name, lambda v: 2.0 ** v)
    for dtype, tolerance in ((tensora.float32, 2e-6), (tensora.float64, 1e-13)):
        y = f(x.to(dtype)).tolist()
        assert all(abs(a - g(b)) <= tolerance * max(1, abs(a)) for a, b in zip(y, x.to(dtype).tolist())), (name, dtype)
w = tensora.nn.Linear(3, 2)
w(tensora.ones(4, 3)).sum().backward()
try:
    tensora.ones(2) @ tensora.ones(3)
except RuntimeError as error:
    assert "matmul" in str(error) or "dot" in str(error), error
print(tensora.__version__)
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def too_new(binary):
    """The versioned symbols of other libraries that the system's may lack."""
    found = []
    for name, text in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI|ZLIB)_([0-9.]+)", run("objdump", "-p", binary)):
        version = tuple(map(int, text.split(".")))
        if version > NEWEST[name]:
            found.append(f"{name}_{text}")
    if "GLIBC_ABI_DT_RELR" in run("objdump", "-p", binary):
        found.append("packed relocations")
    return found


def check_packing(work, version):
    """As ./dev wheel packs the files: the distribution's name, its version, its tags and its command."""
    place = (work / "tensora").relative_to(ROOT)
    packed = work / "packed"
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", packed, "-C",
        "wheel.cmake=false", "-C", "wheel.platlib=true", "-C", f"wheel.packages={place}", "-C",
        f"sdist.include={place.parent}/", ".", cwd=ROOT)
    wheel, = packed.iterdir()
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert wheel.name.startswith(f"tensora_dl-{version}-{python}-{python}-linux_"), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = archive.read(f"tensora_dl-{version}.dist-info/METADATA").decode()
        commands = archive.read(f"tensora_dl-{version}.dist-info/entry_points.txt").decode()
    assert "Name: tensora-dl\n" in about and f"Version: {version}\n" in about, about[:300]
    assert "tensora = tensora._command:main" in commands
    for name in ("tensora/lib/libtensora.so.0", "tensora/py.typed", "tensora/_C.pyi", "tensora/nn/functional.py"):
        assert name in names, name


def check_cuda_packing(work, version):
    """The wheel tensora-dl-cuda, of stand-ins: pip installs it, and its version is that of the project."""
    folder, target = work / "cuda_files", work / "cuda_installed"
    for name in ("lib/libtensora_cuda.so", "_cuda.stand-in.so"):
        (folder / "tensora" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tensora" / name).write_bytes(name.encode())
    wheel = run(sys.executable, ROOT / "python/wheel/pack_cuda.py", folder, "--out", work / "cuda_packed").strip()
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", target, wheel)
    assert (target / "tensora/lib/libtensora_cuda.so").read_bytes() == b"lib/libtensora_cuda.so"
    about = (target / f"tensora_dl_cuda-{version}.dist-info/METADATA").read_text()
    assert f"Version: {version}\n" in about and f"Requires-Dist: tensora-dl (=={version})" in about, about


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--cmake", "--build", "--compiler"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    given = parser.parse_args()
    run(given.cmake, "--build", given.build, "--target", "tensora_wheel")
    work = given.build / "wheel_test"
    shutil.rmtree(work, ignore_errors=True)
    run(given.cmake, "--install", given.build, "--component", "wheel", "--prefix", work)
    package = work / "tensora"
    binaries = [p for p in package.rglob("*") if ".so" in p.name or p.parent.name == "bin"]
    assert len(binaries) >= 5, binaries
    assert not any(p.is_symlink() for p in work.rglob("*"))

    x86 = platform.machine() == "x86_64"
    major = run(given.compiler, "-dumpversion").split(".")[0]
    if x86 and major == "12" and platform.libc_ver()[1] == "2.36":
        for binary in binaries:
            assert not too_new(binary), f"{binary.relative_to(work)} needs {too_new(binary)}"
    else:
        print(f"the limit is not checked with GCC {major} and glibc {platform.libc_ver()[1]}")

    run(sys.executable, ROOT / "tests/hardening/hardening_test.py", package)
    environment = {**os.environ, "PYTHONPATH": str(work), "PYTHONDONTWRITEBYTECODE": "1"}
    version = run(sys.executable, "-c", PROGRAM, work, env=environment, cwd=work).strip()
    assert f"project(Tensora VERSION {version} " in (ROOT / "CMakeLists.txt").read_text(), version
    if importlib.util.find_spec("scikit_build_core") and given.build.is_relative_to(ROOT):
        check_packing(work, version)
    else:
        print("the wheel is not packed: scikit-build-core is not installed, or the build is elsewhere")
    check_cuda_packing(work, version)
    program = package / "bin/tensora"
    if program.exists():
        assert run(program, "--version").strip() == f"tensora {version}"
    if x86:
        parts = ROOT / "python/wheel"
        run(given.compiler, "-std=c++20", "-O1", *(parts / f"{name}.cpp" for name in
              ("parts_test", "older_glibc", "newer_libstdcxx", "program_start")), "-o",
            work / "parts_test", "-pthread")
        print(run(work / "parts_test").strip())
    print(f"{len(binaries)} binaries, {sum(p.stat().st_size for p in binaries) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
