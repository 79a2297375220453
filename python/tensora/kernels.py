"""Kernels that are written in Python: compiled for a GPU, run by vectorized code on the CPU.

    from tensora import kernels as tk

    @tk.kernel
    def softmax_rows(x, y):
        row = tk.program(x.shape[0])
        v = tk.load(x[row, :]).float()
        e = tk.exp(v - tk.max(v))
        tk.store(y[row, :], e / tk.sum(e))

    softmax_rows(input, output)

docs/write-a-kernel.md explains the parts.
"""
import functools
import inspect
import threading
import weakref

from . import _C
from ._C import Tensor

__all__ = ["kernel", "Kernel", "cuda_kernel", "program", "load", "store", "atomic_add", "tiles", "tunable", "block",
           "start", "cdiv", "smaller", "larger", "zeros", "full", "op", "dot", "transposed", "column", "positions",
           "as_tile", "uniform", "normal", "where", "maximum", "minimum", "sum", "mean", "max", "min", "exp", "log",
           "sqrt", "rsqrt", "abs", "round", "tanh", "sigmoid", "silu", "relu", "gelu"]

_Index, _Array, _Tile = _C._KernelIndex, _C._KernelArray, _C._KernelTile


class Kernel:
    """A function of arrays and numbers, which is recorded at every call. Call it with tensors and numbers."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = inspect.signature(function)
        self._call = threading.local()  # .values: the arguments of the call that is being recorded
        this = weakref.ref(self)  # the compiled part holds this function, and the kernel holds that
        self._kernel = _C._Kernel(function.__name__, lambda arrays: this()._record(arrays))

    def _record(self, arrays):
        arrays = iter(arrays)
        self._function(*[next(arrays) if isinstance(value, Tensor) else value for value in self._call.values])

    def _with(self, args, kwargs, run):
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if not isinstance(value, (Tensor, int, float)):
                raise TypeError(f"kernel {self._function.__name__}: {name} must be a tensor or a number, "
                                f"got {type(value).__name__}")
        before = getattr(self._call, "values", None)
        self._call.values = list(bound.arguments.values())
        try:
            return run([value for value in self._call.values if isinstance(value, Tensor)])
        finally:
            self._call.values = before

    def __call__(self, *args, **kwargs):
        self._with(args, kwargs, self._kernel.run)

    def describe(self, *args, **kwargs):
        """What the function records for these arguments."""
        return self._with(args, kwargs, self._kernel.describe)


def kernel(function):
    """Makes a kernel of a function; a decorator."""
    return Kernel(function)


def cuda_kernel(source, name):
    """A kernel in CUDA C++, declared extern "C" __global__. Call it as kernel(blocks, threads, *args): tensors are passed
    as addresses, ints as long, floats as float."""
    def three(dims):
        dims = (dims,) if isinstance(dims, int) else tuple(dims)
        return dims + (1,) * (3 - len(dims))

    def launch(blocks, threads, *args, shared_bytes=0):
        _C._run_cuda_kernel(source, name, three(blocks), three(threads), shared_bytes, list(args))

    launch.__name__ = name
    return launch


def _shape(self):
    return tuple(self.size(d) for d in range(self.ndim))


_Array.shape = property(_shape)

program = _C._kernel_program
load = _C._kernel_load
atomic_add = _C._kernel_atomic_add
smaller, larger = _C._kernel_smaller, _C._kernel_larger
dot, transposed, column, as_tile = _C._kernel_dot, _C._kernel_transposed, _C._kernel_column, _C._kernel_as_tile


def store(place, value):
    """Writes a tile, in the dtype of the array."""
    _C._kernel_store(place, value)


def tiles(begin, end, step):
    """A loop: `for k in tiles(0, n, 64)` runs its body for 0, 64, … below n. The body is recorded once; carry values
    from one iteration to the next by += or set. `k` is an integer; `start(k, 64)` is the range."""
    yield _C._kernel_begin_loop(begin, end, step)
    _C._kernel_end_loop()


def tunable(name, candidates):
    """One of the candidates: the fastest, found by timing the first calls."""
    return _C._kernel_tunable(name, list(candidates))


def block(i, extent):
    """Block number i of `extent` elements each, of a dim."""
    return _C._kernel_range(i * extent, extent, None)


def start(first, extent, limit=None):
    """`extent` elements from `first` on, below `limit`."""
    return _C._kernel_range(first, extent, limit)


def cdiv(a, b):
    """a / b, rounded up."""
    return (a + b - 1) // b


def full(shape, number, dtype=_C.float32):
    """A tile of a number: of (rows, columns), or in the bounds of a place."""
    return _C._kernel_full(shape, number, dtype)


def zeros(shape, dtype=_C.float32):
    return full(shape, 0, dtype)


def op(name, *operands):
    """A pointwise op of the library, by its name; at least one operand is a tile."""
    return _C._kernel_op(name, list(operands))


def positions(tile, axis=1):
    """The number of each column (axis 1) or row (axis 0) in the tile."""
    return _C._kernel_positions(tile, axis)


def uniform(place, seed, offset=0):
    """Random numbers in [0, 1): those that `uniform_` gives the same elements of the array."""
    return _C._kernel_uniform(place, seed, offset)


def normal(place, seed, offset=0):
    return _C._kernel_normal(place, seed, offset)


def _pointwise(name, library_name=None):
    def function(*operands):
        return op(library_name or name, *operands)
    function.__name__ = name
    return function


def _reduction(name, library_name):
    def function(tile, axis=1):
        return _C._kernel_reduce(library_name, tile, axis)
    function.__name__ = name
    return function


where, maximum, minimum = (_pointwise(n) for n in ("where", "maximum", "minimum"))
exp, log, sqrt, rsqrt, abs, round, tanh, sigmoid, silu, relu, gelu = (  # noqa: A001
    _pointwise(n) for n in ("exp", "log", "sqrt", "rsqrt", "abs", "round", "tanh", "sigmoid", "silu", "relu", "gelu"))
sum, mean, max, min = (  # noqa: A001
    _reduction(n, library_name) for n, library_name in (("sum", "sum"), ("mean", "mean"), ("max", "amax"), ("min", "amin")))


def _operators():
    names = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "lt": "lt", "le": "le", "gt": "gt",
             "ge": "ge", "eq": "eq", "ne": "ne", "and": "logical_and", "or": "logical_or"}
    for name, library_name in names.items():
        setattr(_Tile, f"__{name}__", lambda a, b, n=library_name: op(n, a, b))
        if name in ("add", "sub", "mul", "truediv"):
            setattr(_Tile, f"__r{name}__", lambda a, b, n=library_name: op(n, b, a))

            def change(a, b, n=library_name):
                a.set(op(n, a, b))
                return a
            setattr(_Tile, f"__i{name}__", change)
    _Tile.__neg__ = lambda a: op("neg", a)
    _Tile.float = lambda a: a.to(_C.float32)


_operators()
