"""Compiled functions whose body does not run again: tensora.compile(function, replay=True)."""
import functools

from . import _C
from ._tensor import Tensor
from .utils._pytree import tree_flatten, tree_unflatten

_TENSOR = object()  # stands for a tensor in a signature
_MOST_SIGNATURES = 256


class _Signatures:
    """Numbers for signatures. No number is given twice, so that forgetting one is harmless."""

    def __init__(self):
        self._numbers, self._last = {}, 0

    def number(self, leaves, spec):
        try:
            key = (spec, tuple([_TENSOR if isinstance(leaf, Tensor) else (type(leaf), leaf) for leaf in leaves]))
            number = self._numbers.get(key)
        except TypeError:
            kinds = sorted({type(leaf).__name__ for leaf in leaves if getattr(leaf, "__hash__", None) is None})
            raise TypeError("compile: the arguments of a function with replay are tensors and values that can be "
                            f"hashed, got {', '.join(kinds)}") from None
        if number is None:
            if len(self._numbers) >= _MOST_SIGNATURES:
                self._numbers.clear()
            self._last += 1
            number = self._numbers[key] = self._last
        return number


class _Forms:
    """How results are put together from their tensors; None may stand among them."""

    def __init__(self):
        self._numbers, self._forms = {}, []

    def split(self, result):
        leaves, spec = tree_flatten(result)
        for leaf in leaves:
            if leaf is not None and not isinstance(leaf, Tensor):
                raise TypeError(f"compile: a function with replay returns tensors, got {type(leaf).__name__}")
        form = (spec, tuple([leaf is None for leaf in leaves]))
        if form not in self._numbers:
            self._forms.append(form)
            self._numbers[form] = len(self._forms) - 1
        return [leaf for leaf in leaves if leaf is not None], self._numbers[form]

    def join(self, tensors, number):
        spec, missing = self._forms[number]
        rest = iter(tensors)
        return tree_unflatten([None if gone else next(rest) for gone in missing], spec)


def replayed(function, name, strict, verify):
    """`function`, until two calls of one signature have done the same; from then on their kernels alone."""
    replay = _C._Replay(name, strict, verify)
    signatures, forms = _Signatures(), _Forms()

    @functools.wraps(function)
    def run(*args, **kwargs):
        made = []

        def body():
            made.append(function(*args, **kwargs))
            return forms.split(made[0])

        leaves, spec = tree_flatten((args, kwargs))
        tensors, form = replay.call(body, [leaf for leaf in leaves if isinstance(leaf, Tensor)],
                                    signatures.number(leaves, spec))
        return made[0] if made else forms.join(tensors, form)

    run.replayed, run.describe = replay.replayed, replay.describe
    return run
