"""Functions of two arrays, either of which may be a Python number (since 2024.12)."""
from .. import _C
from .._C import Tensor

_NAMES = ("add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
          "copysign", "floor_divide", "hypot", "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum",
          "minimum", "multiply", "nextafter", "pow", "remainder", "subtract")
_RENAMED = {"divide": "div", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
            "greater_equal": "ge"}
__all__ = [*_NAMES, *_RENAMED]


def _binary(name, function):
    def run(x1, x2, /):
        if not isinstance(x1, Tensor):
            x1 = _like(x1, x2)
        elif not isinstance(x2, Tensor):
            x2 = _like(x2, x1)
        return function(x1, x2)
    run.__name__ = run.__qualname__ = name
    run.__doc__ = function.__doc__
    return run


def _like(number, array):
    """The number as an array of the other operand's kind: it is converted where it is of a lower or the same kind."""
    dtype = array.dtype
    fits = dtype.is_complex or not isinstance(number, complex) and (dtype.is_floating_point or not isinstance(number, float))
    return _C.full((), number, dtype=dtype, device=array.device) if fits else _C._wrap_number(number)


for _name in _NAMES:
    globals()[_name] = _binary(_name, getattr(_C, _name))
for _name, _own in _RENAMED.items():
    globals()[_name] = _binary(_name, getattr(_C, _own))
