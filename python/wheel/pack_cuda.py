#!/usr/bin/env python3
"""Packs the wheel tensora-dl-cuda: the library for CUDA and its extension, for the folder of an installed tensora-dl.

    pack_cuda.py FOLDER --out DIR      FOLDER holds tensora/lib/libtensora_cuda.so and tensora/_cuda.*.so

It requires tensora-dl of the same version, which the project in CMakeLists.txt has. The kernels' library checks the version
of its interface when it is opened, so a wrong pair is refused and does not crash.
"""
import argparse
import base64
import hashlib
import pathlib
import re
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
METADATA = """Metadata-Version: 2.1
Name: tensora-dl-cuda
Version: {version}
Summary: What tensora-dl needs to compute on NVIDIA GPUs (compute capability 8.0 or newer)
License: {licence}
Requires-Python: >=3.10
Requires-Dist: tensora-dl (=={version})
"""
TAGS = """Wheel-Version: 1.0
Generator: tensora
Root-Is-Purelib: false
Tag: {tag}
"""


def version():
    return re.search(r"project\(Tensora VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def pack(folder, out):
    """Writes the wheel and returns its path."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.so"))}
    if "tensora/lib/libtensora_cuda.so" not in files or not any(name.startswith("tensora/_cuda.") for name in files):
        sys.exit(f"{folder}: expected tensora/lib/libtensora_cuda.so and tensora/_cuda.*.so, got {', '.join(files) or 'nothing'}")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{re.sub('[^a-z0-9]', '_', sysconfig.get_platform())}"
    name = f"tensora_dl_cuda-{version()}"
    licence = (ROOT / "LICENSE").read_text()
    files[f"{name}.dist-info/METADATA"] = METADATA.format(version=version(), licence=licence.split("\n")[0].strip()).encode()
    files[f"{name}.dist-info/WHEEL"] = TAGS.format(tag=tag).encode()
    files[f"{name}.dist-info/LICENSE"] = licence.encode()

    def line(file, data):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        return f"{file},sha256={digest},{len(data)}\n"
    record = f"{name}.dist-info/RECORD"
    files[record] = ("".join(line(*item) for item in files.items()) + f"{record},,\n").encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{name}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, data in files.items():
            archive.writestr(file, data)
    return wheel


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    print(pack(options.folder, options.out))
