"""Compiled functions whose body does not run again: tensora.compile(function, replay=True)."""
import functools
import threading

from . import _C
from ._tensor import Tensor
from .nn.modules.state import _Changes
from .utils._pytree import tree_flatten, tree_unflatten

_TENSOR = object()  # stands for a tensor in a signature
_MOST_SIGNATURES = 256


def _part(leaf):
    """What a signature holds of an argument. 0.0 and -0.0 are equal, and NaN is not equal to itself, but their texts
    tell what they are."""
    if isinstance(leaf, Tensor):
        return _TENSOR
    return type(leaf), repr(leaf) if isinstance(leaf, (float, complex)) else leaf


class _Signatures:
    """Numbers for signatures. No number is given twice, so that forgetting one is harmless."""

    def __init__(self):
        self._numbers, self._last, self._lock = {}, 0, threading.Lock()

    def number(self, leaves, spec):
        try:
            key = (spec, str(_C._default_device()), tuple([_part(leaf) for leaf in leaves]))
            hash(key)
        except TypeError:
            kinds = sorted({type(leaf).__name__ for leaf in leaves if getattr(leaf, "__hash__", None) is None})
            raise TypeError("compile: the arguments of a function with replay are tensors and values that can be "
                            f"hashed, got {', '.join(kinds)}") from None
        with self._lock:
            if key not in self._numbers:
                if len(self._numbers) >= _MOST_SIGNATURES:
                    self._numbers.clear()
                self._last += 1
                self._numbers[key] = self._last
            return self._numbers[key]


class _Forms:
    """How results are put together from their tensors; None may stand among them."""

    def __init__(self):
        self._numbers, self._forms, self._lock = {}, [], threading.Lock()

    def split(self, result):
        leaves, spec = tree_flatten(result)
        for leaf in leaves:
            if leaf is not None and not isinstance(leaf, Tensor):
                raise TypeError(f"compile: a function with replay returns tensors, got {type(leaf).__name__}")
        form = (spec, tuple([leaf is None for leaf in leaves]))
        with self._lock:
            if form not in self._numbers:
                self._numbers[form] = len(self._forms)
                self._forms.append(form)
        return [leaf for leaf in leaves if leaf is not None], self._numbers[form]

    def join(self, tensors, number):
        spec, missing = self._forms[number]
        rest = iter(tensors)
        return tree_unflatten([None if gone else next(rest) for gone in missing], spec)


def _changes():
    """What recordings do not see: modules that changed, and tensors that got other data."""
    return _Changes.count, _C._data_changes()


class _Recordings:
    """The recordings of a function, until something changes that they may have captured."""

    def __init__(self, *options):
        self._options, self._lock, self._earlier = options, threading.Lock(), 0
        self._changes, self._replay = _changes(), _C._Replay(*options)

    def current(self):
        with self._lock:
            if self._changes != _changes():
                self._earlier += self._replay.replayed()
                self._changes, self._replay = _changes(), _C._Replay(*self._options)
            return self._replay

    def replayed(self):
        with self._lock:
            return self._earlier + self._replay.replayed()

    def describe(self):
        with self._lock:
            return self._replay.describe()


def replayed(function, name, strict, verify, wide):
    """`function`, until two calls of one signature have done the same; from then on their kernels alone."""
    recordings = _Recordings(name, strict, verify, wide)
    signatures, forms = _Signatures(), _Forms()

    @functools.wraps(function)
    def run(*args, **kwargs):
        made = []

        def body():
            made.append(function(*args, **kwargs))
            return forms.split(made[0])

        leaves, spec = tree_flatten((args, kwargs))
        tensors, form = recordings.current().call(body, [leaf for leaf in leaves if isinstance(leaf, Tensor)],
                                                  signatures.number(leaves, spec))
        return made[0] if made else forms.join(tensors, form)

    run.replayed, run.describe = recordings.replayed, recordings.describe
    return run
