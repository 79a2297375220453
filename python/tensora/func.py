"""Gradients of functions."""
import threading

from . import autograd
from ._C import Tensor, is_grad_enabled
from ._modes import enable_grad

_scope = threading.local()  # depth: how many of these functions are running in this thread


def grad(func, argnums=0, has_aux=False):
    """The function that gives the gradient of `func` with respect to an argument.

    >>> tensora.func.grad(lambda x: x ** 2)(tensora.tensor(3.))
    tensor(6.)
    """
    def run(*args, **kwargs):
        gradients, value = _both(func, argnums, has_aux, args, kwargs)
        return (gradients, value[1]) if has_aux else gradients
    return run


def grad_and_value(func, argnums=0, has_aux=False):
    """The same, with the value."""
    def run(*args, **kwargs):
        return _both(func, argnums, has_aux, args, kwargs)
    return run


def _both(func, argnums, has_aux, args, kwargs):
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    args = list(args)
    followed = _is_followed(args)
    with _Depth(), enable_grad():
        for i in chosen:  # an argument of an outer gradient stays in its graph
            outer = followed and args[i].requires_grad
            args[i] = args[i].view_as(args[i]) if outer else args[i].detach().requires_grad_()
        value = func(*args, **kwargs)
        found = autograd.grad(value[0] if has_aux else value, [args[i] for i in chosen], create_graph=followed,
                              materialize_grads=True)
    if not followed:
        value = _detached(value)
    return (found[0] if isinstance(argnums, int) else found), value


def _is_followed(args):
    """Whether the result belongs to a graph: an argument does, or an outer function of this module runs."""
    if getattr(_scope, "depth", 0):
        return True
    return is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args)


class _Depth:
    def __enter__(self):
        _scope.depth = getattr(_scope, "depth", 0) + 1

    def __exit__(self, *error):
        _scope.depth -= 1


def _detached(value):
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, dict):
        return {key: _detached(item) for key, item in value.items()}
    return type(value)(map(_detached, value)) if type(value) in (tuple, list) else value


def functional_call(module, parameters, args=(), kwargs=None):
    """Calls a module with other parameters and buffers."""
    kept = []
    try:
        for name, value in parameters.items():
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            place = owner._parameters if last in owner._parameters else owner._buffers
            kept.append((place, last, place[last]))
            place[last] = value
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for place, name, value in reversed(kept):
            place[name] = value


def jacrev(func, argnums=0):
    """The function that gives the Jacobian."""
    def run(*args):
        def of_one(x):
            return func(*args[:argnums], x, *args[argnums + 1:])
        followed = _is_followed(args)
        with _Depth(), enable_grad():
            return autograd.functional.jacobian(of_one, args[argnums], followed)
    return run


jacfwd = jacrev


def hessian(func, argnums=0):
    """The function that gives the second derivatives."""
    def run(*args):
        followed = _is_followed(args)
        with _Depth(), enable_grad():
            return autograd.functional.hessian(lambda x: func(*args[:argnums], x, *args[argnums + 1:]), args[argnums],
                                               followed)
    return run
