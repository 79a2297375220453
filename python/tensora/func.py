"""Transforms of functions: gradients, Jacobians, and functions of one element mapped over a batch."""
import functools
import itertools
import threading

from . import _C, autograd
from ._C import Tensor, is_grad_enabled
from ._functional_call import functional_call
from ._modes import enable_grad
from .utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_map_only, tree_unflatten

_scope = threading.local()  # depth: how many gradients of this module are being taken in this thread


class _Depth:
    def __enter__(self):
        _scope.depth = getattr(_scope, "depth", 0) + 1

    def __exit__(self, *error):
        _scope.depth -= 1


def _levels():
    import sys
    batched = sys.modules.get("tensora._batched")
    return list(batched.levels()) if batched else []


def _is_followed(args):
    """Whether the result belongs to a graph: an argument does, or an outer function of this module runs."""
    if getattr(_scope, "depth", 0):
        return True
    leaves = tree_flatten(args)[0]
    return is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in leaves)


# ---- gradients: within vmap, those of all elements at once ---------------------------------------------

def _tracked(tensor, followed):
    """The tensor as an input of a graph. Within vmap each element is an input of its own."""
    levels = _levels()
    if levels:
        from . import _batched
        inner = _batched.physical(_batched.spread(tensor, levels))
    else:
        inner = tensor
    # An argument of an outer gradient stays in its graph.
    inner = inner.view_as(inner) if followed and inner.requires_grad else inner.detach().requires_grad_()
    return _nested(inner)


def _nested(inner):
    levels = _levels()
    if not levels:
        return inner
    from . import _batched
    return _batched.nested(inner, levels)


def _physical(tensor):
    """What autograd sees of a tensor: all elements of the vmaps around."""
    levels = _levels()
    if not levels:
        return tensor
    from . import _batched
    return _batched.physical(_batched.spread(tensor, levels))


def _grads(outputs, inputs, given, create_graph):
    """Gradients of logical tensors; zeros where an output does not depend on an input."""
    outputs = [_physical(o) for o in outputs]
    given = [_C.ones_like(o) if g is None else _physical(g) for o, g in zip(outputs, given)]
    inputs = [_physical(x) for x in inputs]
    used = [(o, g) for o, g in zip(outputs, given) if o.requires_grad]
    if not used:
        return [_nested(_C.zeros_like(x)) for x in inputs]
    found = _C._grad([o for o, _ in used], inputs, [g for _, g in used], True, create_graph, True)
    return [_nested(_C.zeros_like(x) if g is None else g) for g, x in zip(found, inputs)]


def _detached(tree):
    return tree_map_only(Tensor, lambda t: t.detach(), tree)


def _checked_scalar(value, name):
    if not isinstance(value, Tensor):
        raise RuntimeError(f"Expected f(*args) to return a Tensor, got {type(value).__name__} for {name}(f)(*args)")
    if value.dim() != 0:
        raise RuntimeError(f"Expected f(*args) to return a scalar tensor, got tensor with {value.dim()} dims. Maybe you "
                           f"wanted to use the vjp or jacrev APIs instead? ({name})")


def grad_and_value(func, argnums=0, has_aux=False):
    """The function that gives the gradient of `func` with respect to an argument, and its value."""
    @functools.wraps(func)
    def run(*args, **kwargs):
        followed = _is_followed((args, kwargs))
        with _Depth(), enable_grad():
            args, inputs = _tracked_arguments(args, argnums, followed)
            leaves, spec = tree_flatten(inputs)
            result = func(*args, **kwargs)
            value, aux = result if has_aux else (result, None)
            _checked_scalar(value, "grad")
            gradients = tree_unflatten(_grads([value], leaves, [None], followed), spec)
        if not followed:
            gradients, value, aux = _detached((gradients, value, aux))
        return gradients, (value, aux) if has_aux else value
    return run


def _tracked_arguments(args, argnums, followed):
    """All arguments, and those chosen by argnums, as inputs of a graph."""
    args = list(args)
    for i in (argnums,) if isinstance(argnums, int) else argnums:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
        args[i] = tree_map_only(Tensor, lambda t: _tracked(t, followed), args[i])
    chosen = args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)
    return args, chosen


def grad(func, argnums=0, has_aux=False):
    """The function that gives the gradient of `func` with respect to an argument: a tensor, or dicts, lists and
    tuples of tensors, such as a module's parameters.

    >>> tensora.func.grad(lambda x: x ** 2)(tensora.tensor(3.))
    tensor(6.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def run(*args, **kwargs):
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients
    return run


def vjp(func, *primals, has_aux=False):
    """The value of `func`, and the function that multiplies vectors with its Jacobian from the left.

    >>> value, product = tensora.func.vjp(tensora.sin, tensora.tensor(0.))
    >>> product(tensora.tensor(2.))
    (tensor(2.),)
    """
    followed = _is_followed(primals)
    with _Depth(), enable_grad():
        inputs = tree_map_only(Tensor, lambda t: _tracked(t, followed), list(primals))
        leaves, spec = tree_flatten(inputs)
        result = func(*inputs)
        value, aux = result if has_aux else (result, None)
        outputs, shape = tree_flatten(value)

    def product(*cotangents, retain_graph=True, create_graph=None):
        del retain_graph  # the graph lives as long as this function
        given = tree_flatten(cotangents[0] if len(cotangents) == 1 else cotangents)[0]
        if len(given) != shape.num_leaves:
            raise RuntimeError("Expected the cotangents to have the structure of the function's value")
        follow = followed or _is_followed(given) if create_graph is None else create_graph
        found = _grads(outputs, leaves, given, follow)
        return tuple(tree_unflatten(found if follow else _detached(found), spec))
    value = value if followed else _detached(value)
    return (value, product, aux) if has_aux else (value, product)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The value of `func`, and the product of its Jacobian with the tangents.

    >>> tensora.func.jvp(tensora.sin, (tensora.tensor(0.),), (tensora.tensor(3.),))
    (tensor(0.), tensor(3.))
    """
    followed = _is_followed((primals, tangents))
    with _Depth(), enable_grad():
        inputs = tree_map_only(Tensor, lambda t: _tracked(t, followed), list(primals))
        leaves = tree_flatten(inputs)[0]
        result = func(*inputs)
        value, aux = result if has_aux else (result, None)
        outputs, shape = tree_flatten(value)
        if strict and not all(o.requires_grad for o in outputs):
            raise RuntimeError("jvp: the output of the function does not depend on the inputs, and strict=True")
        # u · J is linear in u, and its gradient with respect to u in the direction v is J · v.
        weights = [_nested(_C.zeros_like(_physical(o)).requires_grad_()) for o in outputs]
        rows = _grads(outputs, leaves, weights, True)
        products = tree_unflatten(_grads(rows, weights, tree_flatten(list(tangents))[0], followed), shape)
    if not followed:
        value, products, aux = _detached((value, products, aux))
    return (value, products, aux) if has_aux else (value, products)


# ---- Jacobians -------------------------------------------------------------------------------------------

def _units(tensor):
    """Tensors of this shape with a one at each place in turn."""
    for i in range(tensor.numel()):
        unit = _C.zeros(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
        unit[i] = 1
        yield unit.reshape(tensor.shape)


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """The function that gives the Jacobian of `func`, a row at a time; `chunk_size` changes no result.

    >>> tensora.func.jacrev(lambda x: x ** 2)(tensora.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    del chunk_size

    @functools.wraps(func)
    def run(*args, **kwargs):
        args = list(args)
        chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)

        def of_chosen(*values):
            return func(*(values[chosen.index(i)] if i in chosen else x for i, x in enumerate(args)), **kwargs)
        chosen = tuple(i % len(args) for i in chosen)
        value, product, *aux = vjp(of_chosen, *(args[i] for i in chosen), has_aux=has_aux)
        outputs, shape = tree_flatten(value)
        blocks = []
        for k, output in enumerate(outputs):
            rows = []
            for unit in _units(output):
                given = [unit if j == k else _C.zeros_like(o) for j, o in enumerate(outputs)]
                rows.append(product(tree_unflatten(given, shape)))
            blocks.append(_stacked_rows(rows, output, tuple(args[i] for i in chosen)))
        result = tree_unflatten([block[0] if isinstance(argnums, int) else block for block in blocks], shape)
        return (result, *aux) if has_aux else result
    return run


def _stacked_rows(rows, output, inputs):
    """The rows of a Jacobian as trees of tensors of shape output + input."""
    leaves, spec = tree_flatten(inputs)
    columns = [tree_flatten(row)[0] for row in rows]
    result = []
    for i, leaf in enumerate(leaves):
        shape = tuple(output.shape) + tuple(leaf.shape)
        parts = [row[i] for row in columns]
        result.append(_C.stack(parts).reshape(shape) if parts else leaf.new_zeros(shape))
    return tree_unflatten(result, spec)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The function that gives the Jacobian of `func`, a column at a time."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @functools.wraps(func)
    def run(*args, **kwargs):
        chosen = tuple(i % len(args) for i in ((argnums,) if isinstance(argnums, int) else argnums))
        inputs = tuple(args[i] for i in chosen)
        leaves, spec = tree_flatten(inputs)

        def of_chosen(*values):
            return func(*(values[chosen.index(i)] if i in chosen else x for i, x in enumerate(args)), **kwargs)
        columns, shape, aux = [[] for _ in leaves], None, ()
        for k, leaf in enumerate(leaves):
            for unit in _units(leaf):
                tangents = [unit if j == k else _C.zeros_like(x) for j, x in enumerate(leaves)]
                _, product, *aux = jvp(of_chosen, inputs, tree_unflatten(tangents, spec), has_aux=has_aux)
                outputs, shape = tree_flatten(product)
                columns[k].append(outputs)
        if shape is None:
            raise RuntimeError("jacfwd: expected inputs with elements")
        blocks = []
        for o in range(shape.num_leaves):
            parts = [_C.stack([column[o] for column in columns[k]], -1) for k in range(len(leaves))]
            parts = [p.reshape(tuple(p.shape[:-1]) + tuple(x.shape)) for p, x in zip(parts, leaves)]
            block = tree_unflatten(parts, spec)
            blocks.append(block[0] if isinstance(argnums, int) else block)
        result = tree_unflatten(blocks, shape)
        return (result, *aux) if has_aux else result
    return run


def hessian(func, argnums=0):
    """The function that gives the second derivatives."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func, *primals):
    """The value of `func`, and the function that multiplies its Jacobian with tangents."""
    return func(*primals), lambda *tangents: jvp(func, primals, tangents)[1]


# ---- vmap ------------------------------------------------------------------------------------------------

def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """Maps a function of one element over a dim of its arguments.

    Ops run on all elements at once where there is a rule for them, and once for each element otherwise. With
    randomness="different" or "same" the whole function runs once for each element. `chunk_size` limits how many
    elements are computed at once.

    >>> tensora.vmap(tensora.dot)(tensora.ones(2, 3), tensora.ones(2, 3))
    tensor([3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def run(*args, **kwargs):
        leaves, spec = tree_flatten(list(args))
        dims = _checked_dims(func, in_dims, args, leaves, spec)
        size = _batch_size(func, dims, leaves)
        moved = [x if d is None else x.movedim(d, 0) for x, d in zip(leaves, dims)]
        chunk = size if chunk_size is None else min(chunk_size, size)
        parts = []
        for at in range(0, max(size, 1), max(chunk, 1)):
            count = min(chunk, size - at)
            part = [x if d is None else x.narrow(0, at, count) for x, d in zip(moved, dims)]
            one = _one_by_one if randomness != "error" else _at_once
            parts.append(one(func, part, dims, spec, kwargs, count, randomness))
        values = [tree_flatten(value)[0] for value in parts]
        shape = tree_flatten(parts[0])[1]
        joined = [column[0] if len(column) == 1 else _C.cat(list(column)) for column in zip(*values)]
        return tree_unflatten([x if d is None else x.movedim(0, d)
                               for x, d in zip(joined, _out_dims(func, out_dims, shape))], shape)
    return run


def _name(func):
    return getattr(func, "__name__", repr(func))


def _checked_dims(func, in_dims, args, leaves, spec):
    if not isinstance(in_dims, (int, list, tuple, dict)) :
        raise ValueError(f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a "
                         f"(potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}.")
    if not args:
        raise ValueError(f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying "
                         "to vmap over a function with no inputs. The latter is unsupported.")
    given = list(in_dims) if isinstance(in_dims, tuple) else in_dims
    dims = _broadcast_to_and_flatten(given, spec, lambda x: x is None)
    if dims is None:
        raise ValueError(f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the "
                         "structure of `inputs`.")
    for value, dim in zip(leaves, dims):
        if dim is None:
            continue
        if not isinstance(value, Tensor):
            raise ValueError(f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but the "
                             f"input is of type {type(value)}. We cannot vmap over non-Tensor arguments, please use None "
                             "as the respective in_dim")
        if not -value.dim() <= dim < value.dim():
            raise ValueError(f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, but "
                             f"that input is a Tensor of dimensionality {value.dim()} so expected in_dim to satisfy "
                             f"-{value.dim()} <= in_dim < {value.dim()}.")
    return dims


def _batch_size(func, dims, leaves):
    sizes = {value.shape[dim] for value, dim in zip(leaves, dims) if dim is not None}
    if not sizes:
        raise ValueError(f"vmap({_name(func)}): at least one input must be mapped over")
    if len(sizes) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                         f"{sorted(sizes)} for the mapped dimension")
    return sizes.pop()


def _out_dims(func, out_dims, shape):
    given = out_dims
    if isinstance(out_dims, (tuple, list)) and shape.type in (tuple, list):
        given = shape.type(out_dims)
    dims = _broadcast_to_and_flatten(given, shape, lambda x: x is None)
    if dims is None:
        raise ValueError(f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
                         "structure of `outputs`.")
    return dims


_numbers = itertools.count(1)


def _at_once(func, leaves, dims, spec, kwargs, size, randomness):
    from . import _batched
    level, before = next(_numbers), _C.default_generator.get_state()
    _batched.levels().append((level, size))
    try:
        elements = [x if d is None else _batched.wrap(x, level) for x, d in zip(leaves, dims)]
        value = func(*tree_unflatten(elements, spec), **kwargs)
        outputs, shape = tree_flatten(value)
        for output in outputs:
            if not isinstance(output, Tensor):
                raise ValueError(f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
                                 f"{type(output)}. Did you mean to set out_dims= to None for output?")
        outputs = [o._value if _batched.is_at(o, level) else o.unsqueeze(0).expand((size,) + tuple(o.shape))
                   for o in outputs]
    finally:
        _batched.levels().pop()
    if not _C.equal(before, _C.default_generator.get_state()):
        raise RuntimeError(f"vmap: called random operation while in randomness={randomness!r} mode. Please either use the "
                           "'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap")
    return tree_unflatten(outputs, shape)


def _one_by_one(func, leaves, dims, spec, kwargs, size, randomness):
    state, results = _C.default_generator.get_state(), []
    for i in range(size):
        if randomness == "same":
            _C.default_generator.set_state(state)
        elements = [x if d is None else x.select(0, i) for x, d in zip(leaves, dims)]
        results.append(tree_flatten(func(*tree_unflatten(elements, spec), **kwargs)))
    if not results:
        raise RuntimeError(f"vmap: a batch without elements needs randomness='error', got {randomness!r}")
    return tree_unflatten([_C.stack(list(column)) for column in zip(*(values for values, _ in results))], results[0][1])


# ---- modules ---------------------------------------------------------------------------------------------

def stack_module_state(models):
    """The parameters and the buffers of several modules of one kind, stacked by name."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(name_of):
        parts = [dict(getattr(model, name_of)()) for model in models]
        return {name: _C.stack([part[name].detach() for part in parts]).requires_grad_(parts[0][name].requires_grad)
                for name in parts[0]}
    return stacked("named_parameters"), stacked("named_buffers")


def functionalize(func, *, remove="mutations"):
    raise NotImplementedError(f"functionalize (remove={remove!r}): in-place ops need no replacement here; use the function "
                              "itself")


__all__ = ["autograd", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "stack_module_state", "vjp", "vmap"]
