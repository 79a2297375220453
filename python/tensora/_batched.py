"""What vmap gives its function instead of tensors, and what ops do with it.

A Batched is one element of a batch: it has the element's shape, and `_value` holds all elements along dim 0. Nested
vmaps have levels; an op peels the innermost one, and what it calls peels the next. An op without a rule in
_batching_rules.py runs once for each element, and its results are stacked.
"""
import threading
import typing

from . import _C, overrides
from ._C import Tensor
from .autograd import function as _function

_state = threading.local()  # levels: [(level, batch size)] of the vmaps that run in this thread


def levels():
    """The vmaps that run in this thread, outermost first."""
    if not hasattr(_state, "levels"):
        _state.levels = []
    return _state.levels


def _refuse(name, what):
    def refuse(self, *args, **kwargs):
        raise RuntimeError(f"vmap: It looks like you're {what} on a Tensor ({name}). That is not possible in a vmapped "
                           "function: the values of all elements are computed at once")
    return refuse


class Batched(Tensor):
    """A tensor of a vmapped function."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})

    device = property(lambda self: self._value.device)
    requires_grad = property(lambda self: self._value.requires_grad,
                             lambda self, value: setattr(self._value, "requires_grad", value))
    grad_fn = property(lambda self: self._value.grad_fn)
    is_leaf = property(lambda self: self._value.is_leaf)
    is_cpu = property(lambda self: self._value.is_cpu)
    is_cuda = property(lambda self: self._value.is_cuda)
    is_meta = property(lambda self: self._value.is_meta)
    data = property(lambda self: self.detach())
    T = property(lambda self: self.permute(tuple(range(self.dim()))[::-1]))
    mT = property(lambda self: self.transpose(-2, -1))
    H = property(lambda self: self.mT.conj())
    mH = property(lambda self: self.mT.conj())
    real = property(lambda self: _C.real(self) if self.is_complex() else self)
    imag = property(lambda self: _C.imag(self))

    def requires_grad_(self, requires_grad=True):
        self._value.requires_grad_(requires_grad)
        return self

    def to(self, *args, **kwargs):
        return wrap(self._value.to(*args, **kwargs), self._level)

    def contiguous(self, memory_format=None):
        if memory_format not in (None, _C.contiguous_format, _C.preserve_format):
            raise NotImplementedError(f"vmap: contiguous({memory_format}) is not possible in a vmapped function")
        return wrap(self._value.contiguous(), self._level)

    def is_contiguous(self, memory_format=None):
        return memory_format in (None, _C.contiguous_format) and self._value.is_contiguous()

    def detach(self):
        return wrap(self._value.detach(), self._level)

    def __repr__(self):
        return f"BatchedTensor(lvl={self._level}, bdim=0, value={self._value!r})"

    def __iter__(self):
        return iter(self.unbind(0))

    item = _refuse("item", "calling .item()")
    tolist = _refuse("tolist", "calling .tolist()")
    numpy = _refuse("numpy", "calling .numpy()")
    __bool__ = _refuse("bool", "using data-dependent control flow")
    __int__ = _refuse("int", "converting to a number")
    __float__ = _refuse("float", "converting to a number")
    __index__ = _refuse("index", "converting to a number")
    backward = _refuse("backward", "calling .backward()")


def _cast(dtype):
    return lambda self: self.to(dtype)


for _name in ("float", "double", "half", "bfloat16", "int", "long", "short", "bool", "char", "byte"):
    setattr(Batched, _name, _cast(_C._dtype({"float": "float32", "double": "float64", "half": "float16", "int": "int32",
                                             "long": "int64", "short": "int16", "char": "int8", "byte": "uint8"}
                                            .get(_name, _name))))


def _reflected(name):
    function = getattr(Tensor, name)
    return lambda self, other: dispatch(function, (self, other), {})


for _name in ("__radd__", "__rsub__", "__rmul__", "__rtruediv__", "__rfloordiv__", "__rmod__", "__rpow__", "__rmatmul__"):
    setattr(Batched, _name, _reflected(_name))  # called by name, an operator of Tensor does not look for overrides


def wrap(value, level):
    """One element of a batch along dim 0."""
    made = Tensor._make_subclass(Batched, _C.empty(value.shape[1:], dtype=value.dtype, device="meta"))
    made._value, made._level = value, level
    return made


def is_at(value, level):
    return type(value) is Batched and value._level == level


def physical(value):
    """The tensor that holds all elements of all levels."""
    while type(value) is Batched:
        value = value._value
    return value


def spread(value, chosen):
    """The tensor as one that is batched at all of these levels: what is not yet is repeated."""
    if not chosen:
        return value
    (level, size), outer = chosen[-1], chosen[:-1]
    inner = value._value if is_at(value, level) else value.unsqueeze(0).expand((size,) + tuple(value.shape))
    return wrap(spread(inner, outer), level)


def nested(value, chosen):
    """A physical tensor as an element of all of these levels; the dims of the outermost come first."""
    for level, _ in chosen:
        value = wrap(value, level)
    return value


# ---- calling ops -----------------------------------------------------------------------------------

def mapped(value, function):
    """The same tuples, lists and slices with function(tensor) for each tensor."""
    if isinstance(value, Tensor):
        return function(value)
    if type(value) in (tuple, list, _C.Size):
        return type(value)(mapped(item, function) for item in value)
    return value


def _level_of(args, kwargs):
    found = []
    mapped((args, tuple(kwargs.values())), lambda t: found.append(t._level) if type(t) is Batched else None)
    return max(found)


def dispatch(func, args, kwargs):
    """Runs an op on all elements of the innermost level."""
    from . import _batching_rules as rules
    level = _level_of(args, kwargs)
    name = getattr(func, "__name__", "")
    out = kwargs.pop("out", None)
    if out is not None:
        raise RuntimeError(f"vmap: {name} with out= is not possible in a vmapped function")
    rule = rules.RULES.get(name)
    result = rule(func, level, args, kwargs) if rule is not None else NotImplemented
    return one_by_one(func, level, args, kwargs) if result is NotImplemented else result


def call(func, args, kwargs):
    """Calls an op with the elements of an outer level. Operators of Tensor itself would not look for those."""
    if type(func).__name__ == "wrapper_descriptor" and any(type(value) is Batched for value in args):
        return dispatch(func, args, kwargs)
    return func(*args, **kwargs)


def size_of(level):
    return next(size for known, size in levels() if known == level)


_RESHAPING = ("t_", "transpose_", "swapaxes_", "swapdims_", "unsqueeze_", "squeeze_", "resize_", "set_", "as_strided_")


def one_by_one(func, level, args, kwargs):
    """Calls an op once for each element, and stacks the results."""
    name = getattr(func, "__name__", "")
    in_place = (name.endswith("_") and not name.endswith("__")) or name == "__setitem__"
    if in_place and not is_at(args[0], level):
        raise RuntimeError(f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in "
                           "extra_args that has more elements than `self`: `self` is not being vmapped over")
    if name in _RESHAPING:
        raise NotImplementedError(f"vmap: {name} is not possible in a vmapped function; use {name[:-1]}")
    results = []
    for i in range(size_of(level)):
        def element(tensor):
            if not is_at(tensor, level):
                return tensor
            part = tensor._value.select(0, i)
            return part.clone() if name.startswith("as_strided") else part  # its offsets count from the element's memory
        results.append(call(func, mapped(args, element), {key: mapped(value, element) for key, value in kwargs.items()}))
    return args[0] if in_place else stacked(results, level)


def stacked(results, level):
    """The results of all elements as one element."""
    first = results[0] if results else None
    if isinstance(first, Tensor):
        return wrap(_C.stack(results), level)
    if isinstance(first, (tuple, list)):
        parts = [stacked(list(column), level) for column in zip(*results)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if any(result != first for result in results):
        raise RuntimeError("vmap: an op gave another number for each element; only tensors can be results")
    return first


class _Info(typing.NamedTuple):
    """What a Function's own rule is told of the vmap."""
    batch_size: int
    randomness: str


def _apply(cls, args):
    """cls.apply of elements, for an autograd.Function: by its own rule, if it has one."""
    level = _level_of(args, {})
    if cls.vmap is _function.Function.vmap:
        return one_by_one(cls.apply, level, args, {})
    dims = tuple(0 if is_at(value, level) else None for value in args)
    result, out_dims = cls.vmap(_Info(size_of(level), "error"), dims,
                                *(value if dim is None else value._value for value, dim in zip(args, dims)))

    def element(value, dim):
        return value if dim is None else wrap(value.movedim(dim, 0), level)
    if not isinstance(result, tuple):
        return element(result, out_dims)
    return tuple(map(element, result, out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(result)))


overrides._register(Batched)
_function.handlers[Batched] = _apply
