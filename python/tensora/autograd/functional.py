"""Jacobians, Hessians and products with them.

With strict=True a result that does not depend on an input is an error instead of zeros.
"""
from .. import _C
from .._C import Tensor
from .._modes import enable_grad


def _as_tuple(value, what, name):
    """(whether it is a tuple, the tensors)."""
    is_tuple = isinstance(value, (tuple, list))
    values = tuple(value) if is_tuple else (value,)
    for i, entry in enumerate(values):
        if not isinstance(entry, Tensor):
            found = f"value at index {i} has type {type(entry)}" if is_tuple else f"given {what} has type {type(entry)}"
            raise TypeError(f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {found}.")
    return is_tuple, values


def _inputs(inputs, name, create_graph):
    is_tuple, listed = _as_tuple(inputs, "inputs", name)
    # New tensors, so that those that the function itself captures are not inputs.
    return is_tuple, tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in listed)


# What strict=True refuses: gradients that do not exist, by how they were asked for, and values that are constant.
_ABSENT = {
    "back": "The output of the user-provided function is independent of input {}.",
    "back_trick": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the double "
                  "backward trick to compute forward mode gradients.",
    "double_back": "The jacobian of the user-provided function is independent of input {}."}
_CONSTANT = {
    "outputs": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
               "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {} is independent of the inputs of the user-provided function. This is "
                   "not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
                "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
                "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
                "example)."}


def _refuse_constants(values, what, strict):
    for i, value in enumerate(values) if strict else ():
        if not value.requires_grad:
            raise RuntimeError(_CONSTANT[what].format(i))


def _call(func, inputs, name, strict, one=False):
    is_tuple, outputs = _as_tuple(func(*inputs), "outputs of the user-provided function", name)
    _refuse_constants(outputs, "outputs", strict)
    if one and (is_tuple or outputs[0].numel() != 1):
        raise RuntimeError(f"The function given to {name} should return a single Tensor" if is_tuple else
                           f"The Tensor returned by the function given to {name} should contain a single element")
    return is_tuple, outputs


def _vector(v, like, is_tuple, name):
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            what = "user-provided function returns" if name == "vjp" else "input to the user-provided function is"
            raise RuntimeError(f"The vector v can only be None if the {what} a single Tensor with a single element.")
        return tuple(_C.ones_like(x) for x in like)
    v = _as_tuple(v, "v", name)[1]
    if len(v) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}." if is_tuple else
                           "The given v should contain a single Tensor.")
    for i, (given, wanted) in enumerate(zip(v, like)):
        if given.shape != wanted.shape:
            raise RuntimeError(f"{f'Entry {i} in ' if is_tuple else ''}v has invalid size: should be {wanted.shape} but got "
                               f"{given.shape}.")
    return v


def _grads(outputs, inputs, given, create_graph, strict, stage="back", shown=False):
    """Gradients; zeros where nothing depends on an input, or an error. `shown`: they are results, which create_graph wants to
    depend on something."""
    used = [(o, g) for o, g in zip(outputs, given) if o.requires_grad]
    found = _C._grad([o for o, _ in used], inputs, [g for _, g in used], True, create_graph, True) if used else [None] * len(inputs)
    for i, gradient in enumerate(found) if strict else ():
        if gradient is None:
            absent = _ABSENT.get(stage, f"O{stage[1:]} of the user-provided function is independent of input {{}}.")
            raise RuntimeError(f"{absent.format(i)} This is not allowed in strict mode.")
        if shown and create_graph and not gradient.requires_grad:
            what = "hessian" if stage == "double_back" else "jacobian"
            raise RuntimeError(f"The {what} of the user-provided function is independent of input {i}. This is not allowed in "
                               "strict mode when create_graph=True.")
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def _result(values, is_tuple, create_graph):
    values = tuple(value if create_graph else value.detach() for value in values)
    return values if is_tuple else values[0]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs, and the product of `v` with the Jacobian; `v` may be left out for an output of one element."""
    with enable_grad():
        several, inputs = _inputs(inputs, "vjp", create_graph)
        is_tuple, outputs = _call(func, inputs, "vjp", strict)
        given = _vector(v, outputs, is_tuple, "vjp")
        grads = _grads(outputs, inputs, given, create_graph, strict, shown=True)
    return _result(outputs, is_tuple, create_graph), _result(grads, several, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs, and the product of the Jacobian with `v`, which may be left out for an input of one element."""
    with enable_grad():
        several, inputs = _inputs(inputs, "jvp", create_graph)
        tangents = _vector(v, inputs, several, "jvp")
        is_tuple, outputs = _call(func, inputs, "jvp", strict)
        # The gradient of (u · J) with respect to u, in the direction v, is J · v.
        weights = tuple(_C.zeros_like(o).requires_grad_() for o in outputs)
        rows = _grads(outputs, inputs, weights, True, strict)
        _refuse_constants(rows, "grad_inputs", strict)
        products = _grads(rows, weights, tangents, create_graph, strict, "back_trick", shown=True)
    return _result(outputs, is_tuple, create_graph), _result(products, is_tuple, create_graph)


def _check_strategy(strategy, vectorize, create_graph, strict):
    """Both strategies give the same derivatives, and are computed in reverse; PyTorch's conditions are checked."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise ValueError(f"expected strategy 'forward-mode' or 'reverse-mode', got {strategy!r}")
    if strategy == "forward-mode" and (create_graph or not vectorize):
        raise NotImplementedError("the strategy 'forward-mode' needs vectorize=True and create_graph=False")
    if vectorize and strict:
        raise RuntimeError("torch.autograd.functional: `strict=True` and `vectorize=True` are not supported together. Please "
                           "either set `strict=False` or `vectorize=False`.")


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """All derivatives of the outputs: shape of the output, then shape of the input."""
    _check_strategy(strategy, vectorize, create_graph, strict)
    with enable_grad():
        several, inputs = _inputs(inputs, "jacobian", create_graph)
        is_tuple, outputs = _call(func, inputs, "jacobian", strict)
        result = []
        for k, output in enumerate(outputs):
            rows = [[] for _ in inputs]
            flat = output.reshape(-1)
            for i in range(flat.numel()):
                given = _C.zeros_like(flat)
                given[i] = 1
                found = _grads([flat], inputs, [given], create_graph, strict, f"output {k}", shown=True)
                for row, gradient in zip(rows, found):
                    row.append(gradient if create_graph else gradient.detach())
            result.append(tuple(_C.stack(row).reshape(tuple(output.shape) + tuple(x.shape)) if row
                                else x.new_zeros(tuple(output.shape) + tuple(x.shape)) for row, x in zip(rows, inputs)))
    result = [blocks if several else blocks[0] for blocks in result]
    return tuple(result) if is_tuple else result[0]


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function with one element as its result."""
    _check_strategy(outer_jacobian_strategy, vectorize, create_graph, strict)
    several, listed = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*args):
        _, args = _inputs(args, "hessian", True)
        _, outputs = _call(func, args, "hessian", strict, one=True)
        grads = _grads(outputs, args, [None], True, False)
        _refuse_constants(grads, "jacobian", strict)
        return grads
    result = jacobian(gradient, listed, create_graph, strict)
    return result if several else result[0][0]


def _second(func, inputs, v, create_graph, strict, name):
    with enable_grad():
        several, inputs = _inputs(inputs, name, True)
        _, outputs = _call(func, inputs, name, strict, one=True)
        grads = _grads(outputs, inputs, [None], True, strict)
        _refuse_constants(grads, "jacobian", strict)
        v = _vector(v, inputs, several, name)
        products = _grads(grads, inputs, v, create_graph, strict, "double_back", shown=True)
    return _result(outputs, False, create_graph), _result(products, several, create_graph)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The output, and the product of `v` with the Hessian; `v` may be left out for an input of one element."""
    return _second(func, inputs, v, create_graph, strict, "vhp")


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The output, and the product of the Hessian, which is symmetric, with `v`."""
    return _second(func, inputs, v, create_graph, strict, "hvp")
