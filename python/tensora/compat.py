"""Runs programs that were written for PyTorch: `import torch` then means tensora.

    python -m tensora.compat script.py arguments…

or, at the top of a program, `import tensora.compat; tensora.compat.install()`.
"""
import importlib
import importlib.abc
import importlib.machinery
import runpy
import sys


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Resolves torch.x.y to tensora.x.y."""

    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        name = spec.name.replace("torch", "tensora", 1)
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            found = _attribute(name)
            if found is None:
                raise ModuleNotFoundError(f"No module named '{spec.name}': tensora has no part of that name",
                                          name=spec.name) from error
            module = found
        # The import system would otherwise overwrite what the module knows about itself.
        spec._kept = {k: getattr(module, k, None) for k in ("__spec__", "__loader__", "__package__", "__name__")}
        return module

    def exec_module(self, module):
        spec = sys.modules.get(module.__spec__.name, module).__spec__
        for key, value in getattr(spec, "_kept", {}).items():
            setattr(module, key, value)


def _attribute(name):
    """tensora.cuda.amp is an attribute, not a file."""
    place = importlib.import_module("tensora")
    for part in name.split(".")[1:]:
        place = getattr(place, part, None)
        if place is None:
            return None
    return place


def install():
    """Makes `import torch` mean tensora in this process, from now on."""
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is not sys.modules.get("tensora"):
        raise RuntimeError("tensora.compat: PyTorch is already imported; call install() before that")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def main():
    """python -m tensora.compat script.py arguments…"""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m tensora.compat SCRIPT [ARGUMENTS...]")
    install()
    sys.argv = sys.argv[1:]
    import os
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
