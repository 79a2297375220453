"""Gradients of functions."""
from . import autograd


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
    for i in chosen:
        args[i] = args[i].detach().requires_grad_()
    value = func(*args, **kwargs)
    found = autograd.grad(value[0] if has_aux else value, [args[i] for i in chosen], materialize_grads=True)
    return (found[0] if isinstance(argnums, int) else found), value


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
        return autograd.functional.jacobian(of_one, args[argnums])
    return run


jacfwd = jacrev


def hessian(func, argnums=0):
    """The function that gives the second derivatives."""
    def run(*args):
        return autograd.functional.hessian(lambda x: func(*args[:argnums], x, *args[argnums + 1:]), args[argnums])
    return run
