"""Runs one file of PyTorch's tests in this process; started by pytorch_tests.py.

    python pytorch_tests_worker.py PYTORCH FILE RESULTS (tensora | pytorch) EVERY [pytest's arguments]
"""
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import sys
import types

# Python files of PyTorch that the tests need and that are no part of what is tested.
_OF_THE_TESTS = ("torch.testing._internal", "torch.testing._comparison", "torch.testing._utils", "torch.utils._import_utils",
                 "torch.utils._mode_utils")


class _Anything(types.ModuleType):
    """A module that the tests import and that Tensora does not have: every name in it is refused."""

    def __init__(self, name):
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        from tensora import _compat
        setattr(self, name, _compat.refused(f"{self.__name__}.{name}", "it is missing"))
        return getattr(self, name)


class _Source(importlib.abc.MetaPathFinder):
    """Finds the support files of the tests in PyTorch's sources."""

    def __init__(self, source):
        self.source = source

    def find_spec(self, name, path=None, target=None):
        if not name.startswith(_OF_THE_TESTS):
            return None
        place = self.source / name.replace(".", "/")
        if (place / "__init__.py").exists():
            return importlib.util.spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])
        place = place.with_suffix(".py")
        return importlib.util.spec_from_file_location(name, place) if place.exists() else None


class _Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a module for each name that nothing else finds."""

    def find_spec(self, name, path=None, target=None):
        from tensora import compat
        if name.startswith(("torchgen.", "functorch.")) or name in ("torchgen", "functorch"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if name.startswith("torch."):
            try:
                compat._resolved(name)
            except ModuleNotFoundError:
                return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        print("missing module:", spec.name, file=sys.stderr)
        return _Anything(spec.name)

    def exec_module(self, module):
        """The module is complete already."""


class _Engines(list):
    def remove(self, value):
        """The support files take names away, in every attempt to import them."""


def _support(torch):
    """Names that PyTorch's test support reads from its core, and that say nothing about what is tested."""
    from tensora import _compat
    core = torch._C
    for name in ("ScriptDict", "ScriptList", "ScriptMethod", "ScriptFunction", "FileCheck"):
        setattr(core, name, _compat.refused(f"torch._C.{name}", "there is no TorchScript"))
    core._jit_set_num_profiled_runs = lambda n: 1
    core.has_lapack = True
    core._DisableTorchDispatch = core._DisableFuncTorch = contextlib.nullcontext
    if not hasattr(torch.sparse, "check_sparse_tensor_invariants"):
        torch.sparse.check_sparse_tensor_invariants = types.SimpleNamespace(**{name: lambda: False for name in (
            "is_enabled", "enable", "disable")})
    core._get_graph_executor_optimize = lambda *state: True
    for name, block in (("complex32", "q8_0"), ("chalf", "q8_0"), ("quint8", "q4_0"), ("qint8", "q4_1"), ("qint32", "q5_0"),
                        ("quint4x2", "q5_1"), ("quint2x4", "q2_k"), ("float8_e4m3fnuz", "q4_k"), ("float8_e5m2fnuz", "q5_k")):
        setattr(torch, name, getattr(torch, block))  # a dtype that no sample asks for
    for name in ("_unsafe_masked_index_put_accumulate", "_unsafe_masked_index",
                 "_scaled_mm", "_segment_reduce", "_native_batch_norm_legit", "_chunk_cat"):
        if not hasattr(torch, name):
            setattr(torch, name, _compat.refused(f"torch.{name}", "it is missing"))
    torch.cuda.jiterator = types.SimpleNamespace(**{name: lambda *args, **kwargs: lambda *tensors: None for name in (
        "_create_jit_fn", "_create_multi_output_jit_fn")})
    for name in ("jagged", "sparse_csc", "sparse_bsr", "sparse_bsc"):
        if not hasattr(torch, name):
            setattr(torch, name, _compat.refused(f"torch.{name}", "it is missing"))
    import torch.testing._utils
    import torch.utils._mode_utils
    torch.testing._utils, torch.utils._mode_utils = (sys.modules[f"torch.{name}"] for name in ("testing._utils", "utils._mode_utils"))
    torch.profiler.itt = types.SimpleNamespace(is_available=lambda: False)
    from tensora import library
    found = library._Namespace.__getattr__

    def op_or_refusal(self, name):
        try:
            return found(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return _compat.refused(f"torch.ops.{self.name}.{name}", "it is missing")
    library._Namespace.__getattr__ = op_or_refusal
    torch.backends.disable_global_flags = lambda: None
    torch.backends.mkldnn.is_available = lambda: False
    torch.backends.quantized = types.ModuleType("torch.backends.quantized")
    torch.backends.quantized.supported_engines = _Engines(["none", "qnnpack"])
    sys.modules["torch.backends.quantized"] = torch.backends.quantized
    import torch._dynamo
    torch._dynamo.utils.LazyString = str
    trace_rules = types.ModuleType("torch._dynamo.trace_rules")
    trace_rules._as_posix_path = lambda path: pathlib.Path(path).as_posix()
    internal = types.ModuleType("torch._utils_internal")
    internal.IS_FBSOURCE = False
    internal.get_writable_path = lambda path: path
    internal.get_file_path_2 = lambda *parts: os.path.join(*parts)
    internal.get_file_path = lambda *parts: os.path.join(os.path.dirname(torch.__file__), *parts)
    scribe = types.ModuleType("torch._logging.scribe")
    scribe.open_source_signpost = lambda *args, **kwargs: ""
    gpus = types.ModuleType("torch._inductor.utils")
    gpus.GPU_TYPES = ["cuda", "xpu"]
    generation = types.ModuleType("torchgen.utils")
    generation.dataclass_repr = lambda value, indent=0, width=80: type(value).__name__
    for module in (trace_rules, internal, scribe, gpus, generation):
        sys.modules[module.__name__] = module
    torch._utils_internal = internal


def _import_with_stand_ins(name, path):
    """Imports a file; a name that it imports and that is missing is replaced by one that is refused when it is used."""
    import tensora
    from tensora import _compat
    while True:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            return module
        except (ImportError, AttributeError) as error:
            found = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(error)) or \
                re.match(r"(?:module|type object) '(?P<b>[\w.]+)' has no attribute '(?P<a>\w+)'", str(error))
            if not found:
                raise
            missing, place = (found["a"], found["b"]) if "a" in found.groupdict() else found.groups()
            owner = tensora.Tensor if place == "tensora.Tensor" else \
                sys.modules.get(place) or sys.modules[place.replace("torch", "tensora", 1)]
            if missing in vars(owner):
                raise
            print(f"missing name: {place}.{missing}", file=sys.stderr)
            setattr(owner, missing, _compat.refused(f"{place}.{missing}", "it is missing"))


class _Recorder:
    """Writes what each test gave, as it ends; leaves out those that were run before."""

    def __init__(self, path, every):
        self.path, self.every = path, every
        self.known = {json.loads(line)["test"] for line in path.read_text().splitlines()} if path.exists() else set()

    def write(self, **record):
        with open(self.path, "a") as file:
            file.write(json.dumps(record) + "\n")

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items[::self.every] if item.nodeid not in self.known]

    def pytest_runtest_logstart(self, nodeid):
        self.write(test=nodeid, outcome="began")

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            outcome = "passed" if report.outcome == "skipped" and hasattr(report, "wasxfail") else report.outcome
            text = str(report.longrepr) if report.outcome == "failed" else ""
            self.write(test=report.nodeid, outcome=outcome, message=text if len(text) < 4000 else text[:2000] + "\n...\n" + text[-2000:], seconds=round(report.duration, 2))


def main():
    source, file, path, which, every, *rest = sys.argv[1:]
    source, test = pathlib.Path(source), pathlib.Path(source) / "test" / file
    sys.path[:0] = [str(test.parent), str(source / "test")]
    sys.argv = [str(test)]
    import pytest
    if which == "tensora":
        import tensora.compat
        tensora.compat.install()
        sys.meta_path[:0] = [_Source(source), _Missing()]
        import torch
        _support(torch)
        text = test.read_text()
        wide = any(f"common_{name}" in text for name in ("methods", "modules", "optimizers"))
        for helper in ("common_utils", "common_device_type", *(["common_methods_invocations"] if wide else []), "common_nn"):
            name = f"torch.testing._internal.{helper}"
            _import_with_stand_ins(name, source / "torch/testing/_internal" / f"{helper}.py")
        _import_with_stand_ins(test.stem, test)
    sys.exit(pytest.main([str(test), "-q", "-p", "no:cacheprovider", "--noconftest", "--continue-on-collection-errors", "--tb=native",
                          "-W", "ignore", f"--rootdir={source}", *rest], plugins=[_Recorder(pathlib.Path(path), int(every))]))


if __name__ == "__main__":
    main()
