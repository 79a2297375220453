"""Runs programs that were written for PyTorch: `import torch` then means tensora.

    python -m tensora.compat script.py arguments…
    python -m tensora.compat -m module arguments…
    python -m tensora.compat -c command arguments…

or, at the top of a program, `import tensora.compat; tensora.compat.install()`. Python processes that the program starts
run the same way. On the CPU a seed gives PyTorch's random numbers; with TENSORA_COMPAT_RANDOM=tensora in the environment
it gives Tensora's, which are drawn faster.
"""
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys


_PROGRAMS = ("torch.distributed.run", "torch.distributed.launch")  # modules that are run, which packages cannot be


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Resolves torch.x.y to tensora.x.y."""

    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            return importlib.machinery.ModuleSpec(name, self, is_package=name not in _PROGRAMS)
        return None

    def get_code(self, name):
        """For `python -m torch.distributed.run`."""
        from . import _compat
        place = _place(name, _compat.PLACES)
        return importlib.util.find_spec(place).loader.get_code(place)

    def create_module(self, spec):
        module = _resolved(spec.name)
        # The import system would otherwise overwrite what the module knows about itself.
        spec._kept = {k: getattr(module, k, None) for k in ("__spec__", "__loader__", "__package__", "__name__", "__path__")}
        return module

    def exec_module(self, module):
        spec = sys.modules.get(module.__spec__.name, module).__spec__
        for key, value in getattr(spec, "_kept", {}).items():
            # A file may stand for a package of PyTorch, whose other parts are imported below it.
            setattr(module, key, [] if key == "__path__" and value is None else value)
        _keep_name(spec.name)

    def find_distributions(self, context=None):
        """What importlib.metadata.version("torch") asks for."""
        if context is None or context.name in (None, "torch"):
            yield _distribution()


class _Rest(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what no file of tensora is: `from torch.distributed import nn` asks for tensora.distributed.nn, because a
    module that stands for one of PyTorch keeps its own name."""

    def find_spec(self, name, path=None, target=None):
        from . import _compat
        theirs = name.replace("tensora", "torch", 1)
        if name.startswith("tensora.") and (theirs in _compat.PLACES or _compat.refusal(theirs)):
            return importlib.machinery.ModuleSpec(name, self)
        return None

    def create_module(self, spec):
        from . import _compat
        theirs = spec.name.replace("tensora", "torch", 1)
        if theirs in _compat.PLACES:
            return importlib.import_module(theirs)
        return _compat.RefusedModule(theirs, _compat.refusal(theirs))

    def exec_module(self, module):
        """The module is complete already."""


class _Parent:
    """Stands for a package while the import system sets a module as its attribute: see _keep_name."""

    def __init__(self, name):
        vars(self).update(_name=name, _package=sys.modules[name])

    def __getattr__(self, name):
        return getattr(self._package, name)

    def __setattr__(self, name, value):
        sys.modules[self._name] = self._package


def _keep_name(name):
    """Keeps what a package has by the name of one of its modules: torch.autograd.gradcheck is a module and a function,
    of which PyTorch's package shows the function."""
    parent, _, child = name.rpartition(".")
    known = vars(sys.modules[parent]).get(child) if parent in sys.modules else None
    if callable(known) and not isinstance(known, type):
        sys.modules[parent] = _Parent(parent)


def _distribution():
    import importlib.metadata

    class Torch(importlib.metadata.Distribution):
        def read_text(self, filename):
            from ._compat.torch_version import FOLLOWED
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {FOLLOWED}\n" if filename == "METADATA" else None

        def locate_file(self, path):
            return os.path.join(os.path.dirname(os.path.abspath(__file__)), path)
    return Torch()


def _resolved(name):
    """The module that stands for a module of PyTorch."""
    from . import _compat
    place = _place(name, _compat.PLACES)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place and not place.startswith(f"{error.name}."):
            raise
        found = _attribute(place)
        if found is not None:
            return found
        raise ModuleNotFoundError(f"No module named '{name}': tensora has no part of that name", name=name) from error


def _place(name, places):
    """What stands for a dotted name of PyTorch: its own place, or that of the nearest part above it."""
    above, rest = name, ""
    while above and above not in places:
        above, _, part = above.rpartition(".")
        rest = f".{part}{rest}"
    return places[above] + rest if above else name.replace("torch", "tensora", 1)


def _attribute(name):
    """tensora.cuda.amp is an attribute, not a file."""
    place = importlib.import_module("tensora")
    for part in name.split(".")[1:]:
        place = getattr(place, part, None)
        if place is None:
            return None
    return place


def install():
    """Makes `import torch` mean tensora in this process, from now on, and in Python processes that it starts."""
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is not sys.modules.get("tensora"):
        raise RuntimeError("tensora.compat: PyTorch is already imported; call install() before that")
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_Rest())
    import tensora
    from ._compat import names
    names.add(tensora)
    tensora.__name__ = "torch"  # libraries that patch PyTorch compare the names of its modules with this one
    numbers = os.environ.get("TENSORA_COMPAT_RANDOM") or "pytorch"
    if numbers not in ("pytorch", "tensora"):
        raise ValueError(f"TENSORA_COMPAT_RANDOM: expected pytorch or tensora, got '{numbers}'")
    if numbers == "pytorch":
        tensora._C._use_pytorch_numbers(True)
        tensora._C._has_pytorch_numbers = True
    _tell_children()


def _tell_children():
    """Python imports sitecustomize when it starts: the one in _compat/site installs this, and then the usual one."""
    package = os.path.dirname(os.path.abspath(__file__))
    wanted = [os.path.join(package, "_compat", "site"), os.path.dirname(package)]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join([path for path in wanted if path not in paths] + paths)


def main():
    """python -m tensora.compat SCRIPT | -m MODULE | -c COMMAND, with arguments"""
    arguments = sys.argv[1:]
    if not arguments or (arguments[0] in ("-m", "-c") and len(arguments) == 1):
        sys.exit("usage: python -m tensora.compat (SCRIPT | -m MODULE | -c COMMAND) [ARGUMENTS...]")
    import tensora.compat  # this file runs as __main__: the finder must be the one of the module
    tensora.compat.install()
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        import __main__
        exec(compile(arguments[1], "<string>", "exec"), __main__.__dict__)
        return
    import runpy
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
