"""Questions and marks of compiled programs. Functions run as they are here, so no program is being traced."""
from ._functions import compile as compile  # noqa: F401


def is_compiling():
    """Whether the calling code is being traced: never."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn=None, recursive=True, *, reason=None):
    """Keeps a function out of compiled regions; every function runs as it is, so it is the function itself."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn):
    """A mark for a tracer: the function itself."""
    return fn


assume_constant_result = allow_in_graph


def reset():
    """Forgets compiled programs; kernels are kept, and stay right for any program."""


def cudagraph_mark_step_begin():
    """Marks the beginning of a step for PyTorch's CUDA graphs; tensora.cuda.CUDAGraph needs no mark."""


def list_backends(exclude_tags=()):
    """The compilers that can be named: one. It has no tags to exclude it by."""
    return [] if "tensora" in (exclude_tags or ()) else ["tensora"]


class set_stance:
    """How compiled functions run within the scope: always through the one compiler."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in ("default", "eager_on_recompile", "fail_on_recompile", "force_eager", "eager_then_compile"):
            raise ValueError(f"set_stance: unknown stance {stance!r}")
        if force_backend is not None or skip_guard_eval_unsafe:
            raise NotImplementedError("set_stance: force_backend and skip_guard_eval_unsafe are not supported")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def wrap_numpy(fn):
    """The function on NumPy arrays as one on tensors."""
    def run(*args):
        from . import from_numpy
        return from_numpy(fn(*(value.numpy() if hasattr(value, "numpy") else value for value in args)))
    return run
