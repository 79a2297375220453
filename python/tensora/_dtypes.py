"""Questions about dtypes: limits, promotion, kinds."""
import math

from . import _C
from ._C import Tensor


def is_tensor(obj):
    """Whether it is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj):
    return False


def is_floating_point(input):
    """Whether the dtype is a floating one."""
    return input.is_floating_point()


def is_complex(input):
    """Whether the dtype is a complex one."""
    return input.is_complex()


def is_inference(input):
    return input.is_inference()


def numel(input):
    """The number of elements."""
    return input.numel()


def result_type(a, b):
    """The dtype of an operation on both."""
    make = lambda x: _C.empty(x.shape, dtype=x.dtype, device="meta") if isinstance(x, Tensor) else x  # noqa: E731
    a, b = make(a), make(b)
    if not isinstance(a, Tensor):
        a = _C._wrap_number(a)
    if not isinstance(b, Tensor):
        b = _C._wrap_number(b)
    if a.dtype is _C.bool and b.dtype is _C.bool:
        return _C.bool
    return _C.add(_C.empty([1] * a.dim(), dtype=a.dtype) if a.is_meta else a,
                  _C.empty([1] * b.dim(), dtype=b.dtype) if b.is_meta else b).dtype


def can_cast(from_, to):
    """Whether PyTorch's rules of promotion allow the conversion."""
    rank = lambda t: 3 if t.is_complex else 2 if t.is_floating_point else 0 if t is _C.bool else 1  # noqa: E731
    return rank(from_) <= rank(to)


class finfo:
    """Limits of a floating dtype.

    >>> tensora.finfo(tensora.float32).max > 3e38
    True
    """
    _BITS = {_C.float16: (5, 10), _C.bfloat16: (8, 7), _C.float32: (8, 23), _C.float64: (11, 52)}

    def __init__(self, type=None):
        type = type or _C.get_default_dtype()
        type = type.to_real() if type.is_complex else type
        if type is _C.float8_e4m3fn:
            self.max, self.tiny, self.eps = 448.0, 2.0 ** -6, 2.0 ** -3
        elif type is _C.float8_e5m2:
            self.max, self.tiny, self.eps = 57344.0, 2.0 ** -14, 2.0 ** -2
        elif type in self._BITS:
            exponent, mantissa = self._BITS[type]
            bias = 2 ** (exponent - 1) - 1
            self.max = (2 - 2.0 ** -mantissa) * 2.0 ** bias
            self.tiny, self.eps = 2.0 ** (1 - bias), 2.0 ** -mantissa
        else:
            raise TypeError(f"torch.finfo() requires a floating point input type, got {type}")
        self.min, self.smallest_normal = -self.max, self.tiny
        self.dtype, self.bits = str(type).split(".")[1], type.itemsize * 8
        self.resolution = 10.0 ** math.floor(math.log10(self.eps) + 1) if self.eps < 0.1 else 1.0

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Limits of an integer dtype."""

    def __init__(self, type):
        if type.is_floating_point or type.is_complex or type is _C.bool:
            raise TypeError(f"torch.iinfo() requires an integer input type, got {type}")
        self.bits, self.dtype = type.itemsize * 8, str(type).split(".")[1]
        unsigned = self.dtype.startswith("uint")
        self.min = 0 if unsigned else -2 ** (self.bits - 1)
        self.max = 2 ** self.bits - 1 if unsigned else 2 ** (self.bits - 1) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def typename(obj):
    """The name of an object's type."""
    if isinstance(obj, Tensor):
        return obj.type()
    return f"{type(obj).__module__}.{type(obj).__name__}"


def integers(dtype):
    """The end of the integers from 0 on that a dtype represents without a gap; for int64 its last one."""
    if dtype.is_floating_point:
        return int(2 / finfo(dtype).eps) + 1
    return 2 if dtype == _C.bool else iinfo(dtype).max + (dtype != _C.int64)
