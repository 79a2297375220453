"""torch._foreach_*: an op for each tensor of a list. Optimizers that programs bring along are written with them."""
from . import _C
from ._modes import no_grad

_UNARY = ("abs acos asin atan ceil cos cosh digamma erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal "
          "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc").split()
_BINARY = ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max")


def _lists(name, first, *others):
    """The arguments for each tensor of the first list: other lists one by one, everything else as it is."""
    first = list(first)
    for other in others:
        if isinstance(other, (list, tuple)) and len(other) != len(first):
            raise RuntimeError(f"{name}: expected lists of one length, got {len(first)} and {len(other)} elements")
    return zip(first, *(other if isinstance(other, (list, tuple)) else [other] * len(first) for other in others))


def _written(op):
    """The in-place form of an op that has none."""
    def function(self, *others, **options):
        return self.copy_(getattr(self, op)(*others, **options))
    return function


def _pointwise(op):
    in_place = op.endswith("_")

    def function(self, *others, **options):
        name = f"_foreach_{op}"
        method = getattr(_C.Tensor, op, None) or _written(op[:-1])
        found = [method(*row, **options) for row in _lists(name, self, *others)]
        return None if in_place else found
    function.__name__ = function.__qualname__ = f"_foreach_{op}"
    function.__doc__ = f"Tensor.{op} for each tensor of a list; other lists and numbers are its arguments."
    return function


for _op in (*_UNARY, *_BINARY, "lerp", "addcmul", "addcdiv"):
    globals()[f"_foreach_{_op}"] = _pointwise(_op)
    globals()[f"_foreach_{_op}_"] = _pointwise(f"{_op}_")


def _with_values(op):
    """addcmul and addcdiv take one value, one for each tensor, or a tensor of them."""
    plain = globals()[f"_foreach_{op}"]

    def function(self, tensor1, tensor2, value=1):
        if isinstance(value, _C.Tensor):
            value = value.tolist()
        rows = _lists(plain.__name__, self, tensor1, tensor2, value)
        method = getattr(_C.Tensor, op)
        found = [method(a, b, c, value=v) for a, b, c, v in rows]
        return None if op.endswith("_") else found
    function.__name__ = function.__qualname__ = plain.__name__
    function.__doc__ = plain.__doc__
    globals()[plain.__name__] = function


for _op in ("addcmul", "addcmul_", "addcdiv", "addcdiv_"):
    _with_values(_op)


def _foreach_zero_(self):
    """Writes zeros into each tensor."""
    for tensor in self:
        tensor.zero_()


def _foreach_copy_(self, src, non_blocking=False):
    """Copies each tensor of `src` into the one of the same place."""
    with no_grad():
        for to, source in _lists("_foreach_copy_", self, src):
            to.copy_(source, non_blocking)


def _foreach_norm(self, ord=2, dtype=None):
    """The norm of each tensor."""
    return [_C.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in self]


def _foreach_max(self):
    """The largest element of each tensor."""
    return [tensor.max() for tensor in self]
