"""Scopes that change how ops run: each is a context manager and a decorator."""
import functools
import threading
from typing import Any

from . import _C


_GENERATOR = 0x20  # the flag of a generator function's code


class _Scope:
    """A context manager that also decorates functions and generator functions."""

    def __call__(self, function):
        if getattr(getattr(function, "__code__", None), "co_flags", 0) & _GENERATOR:
            @functools.wraps(function)
            def generate(*args, **kwargs):
                generator = function(*args, **kwargs)
                value, error = None, None
                while True:
                    try:
                        with self._again():
                            result = generator.throw(error) if error else generator.send(value)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        value, error = (yield result), None
                    except GeneratorExit:
                        generator.close()
                        raise
                    except BaseException as raised:  # goes on inside the generator
                        value, error = None, raised
            return generate

        @functools.wraps(function)
        def run(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)
        return run

    def _again(self):
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: Any) -> None:
        raise NotImplementedError


class no_grad(_Scope):
    """Ops in the scope record no graph.

    >>> x = tensora.ones(2, requires_grad=True)
    >>> with tensora.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """
    _enabled = False

    def __new__(cls, function: Any = None) -> Any:
        scope = super().__new__(cls)
        return scope if function is None else scope(function)  # @no_grad without parentheses

    def __enter__(self) -> Any:
        self._before = _C._set_grad_enabled(self._enabled)

    def __exit__(self, *error: Any) -> None:
        _C._set_grad_enabled(self._before)


class enable_grad(no_grad):
    """Records again inside a no_grad scope."""
    _enabled = True


class set_grad_enabled(_Scope):
    """Switches recording on or off: at once, and back at the end of a `with`."""

    def __init__(self, mode):
        self._mode = mode
        self._before = _C._set_grad_enabled(mode)

    def __call__(self, function):
        _C._set_grad_enabled(self._before)  # a decorator changes nothing now
        return super().__call__(function)

    def _again(self):
        return set_grad_enabled(self._mode)

    def __enter__(self) -> Any:
        _C._set_grad_enabled(self._mode)

    def __exit__(self, *error: Any) -> None:
        _C._set_grad_enabled(self._before)


class lazy(_Scope):
    """Defers kernels until their results are needed, so that those that follow one another run as one.

    Everything else happens as without the scope. Reading a value (item, printing, numpy) runs what was
    deferred so far. Memory shared with NumPy must not be written to by NumPy while the scope lives.

    >>> x = tensora.ones(3)
    >>> with tensora.lazy():
    ...     y = (x * 2 + 1).sqrt()
    >>> y
    tensor([1.7321, 1.7321, 1.7321])
    """

    def __init__(self, name="", strict=False, report=None, wide=False):
        self._options = (name, strict, report, wide)
        self._scope = None

    def _again(self):
        return lazy(*self._options)

    def __enter__(self) -> Any:
        self._scope = _C._LazyScope(*self._options)
        return self

    def flush(self):
        """Runs what was deferred so far."""
        self._scope.flush()

    def __exit__(self, *error: Any) -> None:
        scope, self._scope = self._scope, None
        try:
            scope.flush()
        except Exception:
            if error[0] is None:
                raise
        finally:
            del scope  # the last reference: the scope ends here


class inference_mode(_Scope):
    """Like no_grad, and what is made here can never enter a graph, which saves bookkeeping."""

    def __new__(cls, mode: Any = True) -> Any:
        scope = super().__new__(cls)
        if callable(mode):
            scope._mode = True
            return scope(mode)
        scope._mode = mode
        return scope

    def _again(self):
        return inference_mode(self._mode)

    def __enter__(self) -> Any:
        self._before = _C._set_inference_mode(self._mode), _C._set_grad_enabled(not self._mode)

    def __exit__(self, *error: Any) -> None:
        _C._set_inference_mode(self._before[0])
        _C._set_grad_enabled(self._before[1])


class autocast(_Scope):
    """Runs matrix products and convolutions in a 16-bit dtype, and what needs precision in float32."""

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"autocast: expected a kind of device such as 'cuda', got {device_type!r}")
        self._device = device_type.split(":")[0]
        self._dtype = dtype or (_C.float16 if self._device == "cuda" else _C.bfloat16)
        self._enabled = enabled
        self._cached = True if cache_enabled is None else cache_enabled

    def _again(self):
        return autocast(self._device, self._dtype, self._enabled, self._cached)

    def __enter__(self) -> Any:
        self._scope = _C._Autocast(self._device, self._dtype, self._enabled, self._cached)
        return self

    def __exit__(self, *error: Any) -> None:
        del self._scope  # its end restores what was


# ---- with tensora.device(...): tensors are made there -----------------------------------------------

_devices = threading.local()  # before: the default devices of the scopes around this one


def _enter_device(self):
    if not hasattr(_devices, "before"):
        _devices.before = []
    _devices.before.append(_C._set_default_device(self))
    return self


def _leave_device(self, *error):
    _C._set_default_device(_devices.before.pop())


_C.device.__enter__, _C.device.__exit__ = _enter_device, _leave_device
