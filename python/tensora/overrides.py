"""__torch_function__: classes that decide what functions of tensors do with their objects."""
import functools
import threading

from . import _C
from ._C import Tensor

# ---- asking and calling ---------------------------------------------------------------------------


def _overrides(value):
    kind = type(value)
    if kind is Tensor:
        return False
    return kind in _subclasses if isinstance(value, Tensor) else hasattr(kind, "__torch_function__")


def has_torch_function(relevant_args):
    """Whether one of the arguments overrides functions."""
    return _C._disable_overrides(0) == 0 and any(map(_overrides, relevant_args))


def has_torch_function_unary(value):
    return has_torch_function((value,))


def has_torch_function_variadic(*args):
    return has_torch_function(args)


def is_tensor_like(value):
    """Whether it is a tensor, or of a class with __torch_function__."""
    return type(value) is Tensor or hasattr(value, "__torch_function__")


def _dispatch(func, relevant, args, kwargs):
    """Asks the arguments from left to right, subclasses before their bases."""
    order, types = [], []
    for value in relevant:
        kind = type(value)
        if kind in types:
            continue
        at = next((i for i, other in enumerate(types) if issubclass(kind, other)), len(types))
        order.insert(at, value)
        types.insert(at, kind)
    for value in order:
        result = value.__torch_function__(func, tuple(types), args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{resolve_name(func)}' on types that implement __torch_function__: "
                    f"{types}")


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Calls __torch_function__ of those of `relevant_args` that have one."""
    return _dispatch(public_api, [value for value in relevant_args if _overrides(value)], args, kwargs)


def wrap_torch_function(dispatcher):
    """Decorates a function of the program so that its arguments can override it; dispatcher(*args) names those."""
    def decorate(func):
        @functools.wraps(func)
        def run(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(run, relevant, *args, **kwargs)
            return func(*args, **kwargs)
        return run
    return decorate


def resolve_name(func):
    """The full name of a function: "torch.add", "torch.Tensor.add"."""
    name = getattr(func, "__name__", str(func))
    if type(func).__name__ == "builtin_method":
        return f"torch.Tensor.{name}"
    return f"{getattr(func, '__module__', 'torch')}.{name}".replace("tensora", "torch", 1)


def is_tensor_method_or_property(func):
    return type(func).__name__ in ("builtin_method", "method_descriptor", "getset_descriptor", "wrapper_descriptor")


class DisableTorchFunctionSubclass:
    """Within the scope, subclasses of Tensor are treated as tensors."""

    def __enter__(self):
        _C._disable_overrides(1)
        return self

    def __exit__(self, *error):
        _C._disable_overrides(-1)


_C.DisableTorchFunctionSubclass = DisableTorchFunctionSubclass


class TorchFunctionMode:
    """Within the scope, its __torch_function__(func, types, args, kwargs) runs in the place of every function of tensors:
    those of the module, methods, operators and indexing. There, functions run without this mode. The innermost of nested
    modes comes first."""

    def __enter__(self):
        _stack().append(self)
        _see_operators(1)
        _C._count_modes(1)
        return self

    def __exit__(self, *error):
        _C._count_modes(-1)
        _stack().pop()
        _see_operators(-1)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError("TorchFunctionMode: a mode has a __torch_function__ of its own")


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


_of_thread = threading.local()


def _stack():
    """The modes that this thread has entered, the innermost last."""
    if not hasattr(_of_thread, "modes"):
        _of_thread.modes = []
    return _of_thread.modes


def _dispatch_to_mode(func, relevant, args, kwargs):
    """Calls the innermost mode, without it being seen by what it calls."""
    mode = _stack().pop()
    _C._count_modes(-1)
    try:
        result = mode.__torch_function__(func, tuple({type(value): None for value in relevant}), args, kwargs)
    finally:
        _stack().append(mode)
        _C._count_modes(1)
    if result is NotImplemented:
        raise TypeError(f"no implementation found for '{resolve_name(func)}': the mode {type(mode).__name__} returned "
                        "NotImplemented")
    return result


_C._set_mode_handler(_dispatch_to_mode)


def _seen_by_modes(own):
    @functools.wraps(own)
    def operator(*args):
        if _C._count_modes(0) > 0:
            return _dispatch_to_mode(own, [value for value in args if _overrides(value)], args, {})
        return own(*args)
    return operator


_own_operators, _entered, _lock = {}, 0, threading.Lock()


def _see_operators(change):
    """Tensor's operators are slots of the type, which look for no mode: they are replaced while a thread has one."""
    global _entered
    with _lock:
        _entered += change
        if _entered and not _own_operators:
            for name in _operator_names():
                _own_operators[name] = Tensor.__dict__[name]
                setattr(Tensor, name, _seen_by_modes(_own_operators[name]))
        while not _entered and _own_operators:
            setattr(Tensor, *_own_operators.popitem())


# ---- subclasses of Tensor -------------------------------------------------------------------------

_subclasses = set()
_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
           "matmul": "matmul", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
           "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNARY = {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}


def _plain(name):
    """Tensor's own operator, called through __torch_function__ of the operands."""
    own = getattr(Tensor, name)

    @functools.wraps(own)
    def operator(*args):
        relevant = [value for value in args if _overrides(value)]
        if not relevant or _C._disable_overrides(0) > 0:
            return own(*args)
        return _dispatch(own, relevant, args, {})
    return operator


def _attribute(name):
    """Tensor's own attribute, read through __torch_function__."""
    own = Tensor.__dict__[name]

    def read(self):
        if not _overrides(self) or _C._disable_overrides(0) > 0:
            return own.__get__(self)
        return _dispatch(own.__get__, [self], (self,), {})
    return property(read, own.__set__)


_operators = {}


def _operator_names():
    names = [f"__{name}__" for name in (*_BINARY, *_COMPARISONS, *_UNARY, "getitem", "setitem")]
    names += [f"__{kind}{name}__" for name in _BINARY for kind in "ri"]
    return [name for name in names if name in Tensor.__dict__]


def _operators_of_subclasses():
    if not _operators:
        _operators.update({name: _plain(name) for name in _operator_names()})
        _operators.update({name: _attribute(name) for name in ("T", "mT", "H", "mH", "data", "real", "imag")})
        _operators["detach"], _operators["__hash__"] = _plain("detach"), Tensor.__hash__
        _operators["__iter__"] = lambda self: iter(self.unbind(0))  # the elements are of the subclass, too
    return _operators


def _register(cls):
    """Runs when a subclass of Tensor is defined."""
    if cls.__torch_function__ is _C._disabled_torch_function_impl:
        return
    _subclasses.add(cls)
    for name, operator in _operators_of_subclasses().items():
        if not any(name in base.__dict__ for base in cls.__mro__[:cls.__mro__.index(Tensor)]):
            setattr(cls, name, operator)
    _C._register_override(cls)


def _converted(result, cls):
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)) and (type(result) in (tuple, list) or hasattr(type(result), "n_sequence_fields")):
        return type(result)(_converted(item, cls) for item in result)
    return result


def _default(cls, func, types, args=(), kwargs=None):
    """Runs the function, and gives its tensors the class of the argument."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return _converted(result, cls)


Tensor.__torch_function__ = classmethod(_default)


def get_ignored_functions():
    """Functions that cannot be overridden: none is listed."""
    return set()


def get_overridable_functions():
    """The functions that arguments with __torch_function__ can override, by module."""
    import tensora
    kinds = ("builtin_function", "builtin_method")
    return {place: [value for value in vars(place).values() if type(value).__name__ in kinds]
            for place in (tensora, tensora.nn.functional, tensora.linalg, tensora.fft, Tensor)}
