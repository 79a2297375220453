"""Gradients of functions."""
import threading

from . import autograd
from ._C import Tensor, is_grad_enabled
from ._modes import enable_grad

_scope = threading.local()  # depth: how many of these functions are running in this thread


def grad(func, argnums=0, has_aux=False):
    """The function that gives the gradient of `func` with respect to an argument: a tensor, or dicts, lists and
    tuples of tensors, such as a module's parameters.

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
    args, inputs = list(args), []
    followed = _is_followed(args)

    def tracked(tensor):
        outer = followed and tensor.requires_grad  # an argument of an outer gradient stays in its graph
        inputs.append(tensor.view_as(tensor) if outer else tensor.detach().requires_grad_())
        return inputs[-1]
    with _Depth(), enable_grad():
        for i in chosen:
            args[i] = _mapped(args[i], tracked)
        value = func(*args, **kwargs)
        found = iter(autograd.grad(value[0] if has_aux else value, inputs, create_graph=followed, materialize_grads=True))
    gradients = tuple(_mapped(args[i], lambda _: next(found)) for i in chosen)
    if not followed:
        value = _mapped(value, Tensor.detach)
    return (gradients[0] if isinstance(argnums, int) else gradients), value


def _is_followed(args):
    """Whether the result belongs to a graph: an argument does, or an outer function of this module runs."""
    if getattr(_scope, "depth", 0):
        return True
    tracked = []
    _mapped(args, lambda tensor: tracked.append(tensor.requires_grad))
    return is_grad_enabled() and any(tracked)


class _Depth:
    def __enter__(self):
        _scope.depth = getattr(_scope, "depth", 0) + 1

    def __exit__(self, *error):
        _scope.depth -= 1


def _mapped(value, function):
    """The same containers, with function(tensor) for each tensor in them."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return type(value)((key, _mapped(item, function)) for key, item in value.items())
    return type(value)(_mapped(item, function) for item in value) if type(value) in (tuple, list) else value


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
        followed = _is_followed(list(args))
        with _Depth(), enable_grad():
            return autograd.functional.jacobian(of_one, args[argnums], followed)
    return run


jacfwd = jacrev


def hessian(func, argnums=0):
    """The function that gives the second derivatives."""
    def run(*args):
        followed = _is_followed(list(args))
        with _Depth(), enable_grad():
            return autograd.functional.hessian(lambda x: func(*args[:argnums], x, *args[argnums + 1:]), args[argnums],
                                               followed)
    return run
