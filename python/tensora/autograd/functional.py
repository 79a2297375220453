"""Jacobians, Hessians and products with them."""
from .. import _C
from .._C import Tensor


def _inputs(inputs, create_graph):
    single = isinstance(inputs, Tensor)
    listed = [inputs] if single else list(inputs)
    if create_graph:
        return single, [x if x.requires_grad else x.detach().requires_grad_() for x in listed]
    return single, [x.detach().requires_grad_() for x in listed]


def _call(func, inputs):
    outputs = func(*inputs)
    single = isinstance(outputs, Tensor)
    return single, [outputs] if single else list(outputs)


def _grads(outputs, inputs, given, create_graph, strict):
    found = _C._grad(outputs, inputs, given, True, create_graph, not strict)
    return [_C.zeros_like(x) if g is None else g for g, x in zip(found, inputs)]


def _finish(value, create_graph):
    return value if create_graph else value.detach()


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs, and the product of `v` with the Jacobian."""
    single, inputs = _inputs(inputs, create_graph)
    one, outputs = _call(func, inputs)
    given = [_C.ones_like(o) for o in outputs] if v is None else ([v] if isinstance(v, Tensor) else list(v))
    grads = [_finish(g, create_graph) for g in _grads(outputs, inputs, given, create_graph, strict)]
    outputs = [_finish(o, create_graph) for o in outputs]
    return outputs[0] if one else tuple(outputs), grads[0] if single else tuple(grads)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs, and the product of the Jacobian with `v`."""
    single, inputs = _inputs(inputs, create_graph)
    one, outputs = _call(func, inputs)
    tangents = [_C.ones_like(x) for x in inputs] if v is None else ([v] if isinstance(v, Tensor) else list(v))
    # The gradient of (u · J) with respect to u, in the direction v, is J · v.
    weights = [_C.zeros_like(o).requires_grad_() for o in outputs]
    rows = _grads(outputs, inputs, weights, True, strict)
    products = _C._grad(rows, weights, tangents, True, create_graph, True)
    products = [_C.zeros_like(o) if p is None else _finish(p, create_graph) for p, o in zip(products, outputs)]
    outputs = [_finish(o, create_graph) for o in outputs]
    return outputs[0] if one else tuple(outputs), products[0] if one else tuple(products)


def _check_strategy(strategy, vectorize, create_graph):
    """Both strategies give the same derivatives, and are computed in reverse; PyTorch's conditions are checked."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(f"expected strategy 'forward-mode' or 'reverse-mode', got {strategy!r}")
    if strategy == "forward-mode" and (create_graph or not vectorize):
        raise NotImplementedError("the strategy 'forward-mode' needs vectorize=True and create_graph=False")


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """All derivatives of the outputs: shape of the output, then shape of the input."""
    _check_strategy(strategy, vectorize, create_graph)
    single, inputs = _inputs(inputs, create_graph)
    one, outputs = _call(func, inputs)
    result = []
    for output in outputs:
        rows = [[] for _ in inputs]
        flat = output.reshape(-1)
        for i in range(flat.numel()):
            given = _C.zeros_like(flat)
            given[i] = 1
            for row, grad in zip(rows, _grads([flat], inputs, [given], create_graph, strict)):
                row.append(_finish(grad, create_graph))
        result.append(tuple(_C.stack(row).reshape(tuple(output.shape) + tuple(x.shape)) if row
                            else x.new_zeros(tuple(output.shape) + tuple(x.shape)) for row, x in zip(rows, inputs)))
    result = [r[0] for r in result] if single else result
    return result[0] if one else tuple(result)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function with one element as its result."""
    _check_strategy(outer_jacobian_strategy, vectorize, create_graph)
    single = isinstance(inputs, Tensor)
    listed = (inputs,) if single else tuple(inputs)

    def gradient(*args):
        _, args = _inputs(args, True)
        output = func(*args)
        return tuple(_grads([output], args, [None], True, strict))
    result = jacobian(gradient, listed, create_graph)
    return result[0][0] if single else result


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs, and the product of `v` with the Hessian."""
    single, inputs = _inputs(inputs, True)
    output = func(*inputs)
    grads = _grads([output], inputs, [None], True, strict)
    v = [_C.ones_like(x) for x in inputs] if v is None else ([v] if isinstance(v, Tensor) else list(v))
    products = [_finish(p, create_graph) for p in _grads(grads, inputs, v, create_graph, strict)]
    return _finish(output, create_graph), products[0] if single else tuple(products)


hvp = vhp  # the Hessian is symmetric
