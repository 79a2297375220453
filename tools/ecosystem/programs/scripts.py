"""What runs the scripts of public repositories, unmodified, on small data made here."""
import contextlib
import gzip
import io
import os
import pathlib
import random
import re
import runpy
import shutil
import struct
import sys
import tempfile

import numpy

SOURCES = "TENSORA_ECOSYSTEM_SOURCES"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")


def sources():
    """The folder with the checkouts, or None."""
    folder = os.environ.get(SOURCES)
    return pathlib.Path(folder) if folder else None


class _Enough(BaseException):
    """Ends a script that has printed as many lines as are wanted."""


class _Lines(io.StringIO):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def write(self, text):
        written = super().write(text)
        if self.limit and self.getvalue().count("\n") >= self.limit:
            raise _Enough
        return written


@contextlib.contextmanager
def checkout(repository, inside="."):
    """A copy of a checkout, whose folder `inside` is the current one and is where Python looks first."""
    before, path = os.getcwd(), list(sys.path)
    with tempfile.TemporaryDirectory() as scratch:
        # One folder further down: scripts write to ../data.
        root = pathlib.Path(scratch) / "checkout" / repository
        shutil.copytree(sources() / repository, root, ignore=shutil.ignore_patterns(".git", "*.png", "*.jpg", "*.ipynb"))
        os.chdir(root / inside)
        sys.path[:0] = [str(root / inside), str(root)]
        try:
            yield root
        finally:
            os.chdir(before)
            sys.path[:] = path


def printed(script, arguments=(), lines=0, drop=r"$^", seed=0):
    """The numbers that a script prints, without those that match `drop`; of the first `lines` lines if given."""
    import torch
    torch.manual_seed(seed)
    numpy.random.seed(seed)
    random.seed(seed)
    kept, out = sys.argv, _Lines(lines)
    sys.argv = [str(script), *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_path(str(script), run_name="__main__")
    except _Enough:
        pass
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    finally:
        sys.argv = kept
    found = [float(x) for x in NUMBER.findall(re.sub(drop, " ", out.getvalue()))]
    if not found:
        raise RuntimeError(f"{script} printed no numbers: {out.getvalue()[-300:]!r}")
    return numpy.array(found)


def mnist(folder, train=256, test=64, name="MNIST"):
    """MNIST's four files with images of noise over a bar whose place is the label."""
    folder = pathlib.Path(folder) / name / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    rng = numpy.random.default_rng(0)
    for kind, count in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, count).astype("uint8")
        images = rng.integers(0, 60, (count, 28, 28)).astype("uint8")
        for image, label in zip(images, labels):
            image[:, 2 + 2 * label:5 + 2 * label] += 180
        for file, content in ((f"{kind}-images-idx3-ubyte", struct.pack(">4I", 2051, count, 28, 28) + images.tobytes()),
                              (f"{kind}-labels-idx1-ubyte", struct.pack(">2I", 2049, count) + labels.tobytes())):
            (folder / file).write_bytes(content)
            (folder / f"{file}.gz").write_bytes(gzip.compress(content))


def pictures(folder, count=4, size=48):
    """Images of smooth colours."""
    from PIL import Image
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows, columns = numpy.mgrid[0:size, 0:size] / size
    for i in range(count):
        image = numpy.stack([numpy.sin(6 * rows + i), numpy.cos(5 * columns * (i + 1)), rows * columns], -1)
        Image.fromarray(((image + 1) * 127).astype("uint8")).save(folder / f"image{i}.png")


def cora(folder, nodes=80):
    """Files of the form of the Cora citations."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rng = numpy.random.default_rng(0)
    kinds = numpy.arange(nodes) % 4
    with open(folder / "cora.content", "w") as file:
        for node in range(nodes):
            words = (rng.random(24) < 0.2 + 0.5 * (numpy.arange(24) % 4 == kinds[node])).astype(int)
            print(node + 100, *words, f"kind{kinds[node]}", sep="\t", file=file)
    with open(folder / "cora.cites", "w") as file:
        for node in range(nodes):
            for other in rng.choice(nodes, 3, replace=False):
                print(node + 100, other + 100, sep="\t", file=file)


def text(path, words=3000):
    """A text of made-up words."""
    rng = numpy.random.default_rng(0)
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ["the", "old", "cat", "sat", "on", "a", "mat", "and", "saw", "red", "birds", "fly"]
    path.write_text("\n".join(" ".join(rng.choice(names, 8)) for _ in range(words // 8)) + "\n")
