"""How the lints that really compile find their flags, run side by side and remember what was clean."""

import concurrent.futures
import hashlib
import json
import posixpath
import re
import shlex
import shutil
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
_CUDA_HEADER = re.compile(r"(cuda|cublas|nvrtc|nvtx|nvToolsExt|nccl|cudnn)")


class Flags:
    """The flags of a file: its own where the build compiles it as it is, else those all files share.

    Sources that are compiled together as one unit have no entry of their own in the build's database.
    """

    def __init__(self, tree):
        database = tree.build / "compile_commands.json"
        entries = json.loads(database.read_text()) if database.exists() else []
        folders, shared, self._own, self._with_prefix = [], None, {}, set()
        for entry in entries:
            words = shlex.split(entry["command"])
            found, own = _flags_of(words)
            folders += [f for f in found if f not in folders]
            shared = own if shared is None else [flag for flag in shared if flag in own]
            file = Path(entry["directory"]) / entry["file"]
            if file.is_relative_to(tree.root):
                name = str(file.relative_to(tree.root))
                self._own.setdefault(name, own)
                if "-include" in words:
                    self._with_prefix.add(name)
        folders = [("-I", str(tree.root)), ("-I", str(tree.build / "generated/include")), *folders]
        cuda = cuda_include_folder()
        if cuda:
            folders.append(("-isystem", cuda))
        self.shared = ["-std=c++20", *(shared or []), *(part for folder in folders for part in folder)]

    def of(self, path):
        return self.shared + [flag for flag in self._own.get(path, []) if flag not in self.shared]

    def compiles_as_is(self, path):
        """Whether the build compiles this file by itself and puts nothing, such as a prefix header, before it."""
        return path in self._own and path not in self._with_prefix


def _flags_of(words):
    """(include folders, definitions and machine flags) of a compile command."""
    folders, own = [], []
    for word, following in zip(words, [*words[1:], ""]):
        if word in ("-I", "-isystem"):
            folders.append((word, following))
        elif word.startswith("-I"):
            folders.append(("-I", word[2:]))
        elif word.startswith(("-D", "-m")):
            own.append(word)
    return folders, own


def cuda_include_folder():
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    folder = Path(nvcc).resolve().parents[1] / "include"
    return str(folder) if (folder / "cuda_runtime.h").exists() else None


def needs_torch(path):
    """Whether a file includes PyTorch's headers, which are known only to a build that has found them."""
    return path.startswith(("tensora/torch/", "tests/torch/"))


class Closure:
    """For each file a key that changes with any of the project's files it includes, however deep."""

    def __init__(self, tree, salt):
        self._tree = tree
        self._known = set(tree.files)
        self._generated = tree.build / "generated/include"
        self._salt = hashlib.sha256("\0".join(salt).encode()).hexdigest()
        self._direct = {}

    def _includes(self, path):
        """(files of the tree or generated ones, other people's headers) that a file includes."""
        if path not in self._direct:
            ours, foreign = set(), set()
            for name in _INCLUDE.findall(self._tree.text(path)):
                beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
                found = next((p for p in (beside, name) if p in self._known), None)
                if not found and (self._generated / name).is_file():
                    found = str(self._generated / name)
                (ours if found else foreign).add(found or name)
            self._direct[path] = (ours, foreign)
        return self._direct[path]

    def _walk(self, path):
        reached, waiting = set(), [path]
        while waiting:
            here = waiting.pop()
            if here not in reached:
                reached.add(here)
                waiting += self._includes(here)[0]
        return reached

    def key(self, path):
        digest = hashlib.sha256(self._salt.encode())
        for file in sorted(self._walk(path)):
            digest.update(f"{file}\0{self._tree.text(file)}\0".encode())
        return digest.hexdigest()

    def needs_cuda(self, path):
        return any(_CUDA_HEADER.match(name) for file in self._walk(path) for name in self._includes(file)[1])


class CleanCache:
    """Remembers what a lint found clean, by key, in the build folder."""

    def __init__(self, tree, name):
        self._file = tree.build / f"lint-{name}.json"
        try:
            self._keys = json.loads(self._file.read_text())
        except (OSError, ValueError):
            self._keys = {}

    def has(self, path, key):
        return self._keys.get(path) == key

    def add(self, path, key):
        self._keys[path] = key

    def save(self):
        if self._file.parent.is_dir():
            self._file.write_text(json.dumps(self._keys, indent=0, sort_keys=True))


def run_side_by_side(jobs, work, items):
    """The results of work(item) in the order of items, `jobs` at a time."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(work, items))
