"""Forward-mode differentiation: dual tensors carry a tangent through every function that they are given to.

The tangent of a function's result follows from its gradient, differentiated once more with respect to the weights of the
outputs, so every op that has a gradient takes part.
"""
import typing

from .. import _C
from .._C import Tensor
from .._modes import enable_grad
from . import function

_current_level = -1  # -1: none; levels are not nested
_entered = 0  # levels so far


class UnpackedDualTensor(typing.NamedTuple):
    """What a dual tensor consists of; the tangent is None for other tensors."""
    primal: Tensor
    tangent: typing.Optional[Tensor]


def enter_dual_level():
    """Begins a level, in which dual tensors can be made."""
    global _current_level, _entered
    if _current_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _current_level = _entered
    _entered += 1
    return _current_level


def exit_dual_level(*, level=None):
    """Ends the level: its dual tensors have no tangents from now on."""
    global _current_level
    if _current_level < 0 or level not in (None, _current_level):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created")
    _current_level = -1


class dual_level:
    """The scope of a level.

    >>> import tensora.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(tensora.tensor(3.), tensora.tensor(1.))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *error):
        exit_dual_level()


def _check_level(name, level):
    if level not in (None, _current_level):
        raise ValueError(f"{name}: level {level} is not the present one, {_current_level}")
    if _current_level < 0:
        raise RuntimeError(f"{name}: trying to use a dual tensor outside of a level; use forward_ad.dual_level()")


def make_dual(tensor, tangent, *, level=None):
    """The tensor with a tangent of the same shape."""
    _check_level("forward_ad.make_dual", level)
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if tangent.shape != tensor.shape or tangent.dtype != tensor.dtype:
        raise RuntimeError(f"forward_ad.make_dual: expected a tangent of shape {tuple(tensor.shape)} and {tensor.dtype}, got "
                           f"{tuple(tangent.shape)} and {tangent.dtype}")
    return _dual(_primal(tensor), tangent)


def unpack_dual(tensor, *, level=None):
    """(primal, tangent) of a dual tensor of this level."""
    if _current_level < 0:
        return UnpackedDualTensor(_primal(tensor), None)
    _check_level("forward_ad.unpack_dual", level)
    return UnpackedDualTensor(_primal(tensor), _tangent(tensor))


def _dual(primal, tangent):
    result = primal.as_subclass(_Dual)
    result._primal, result._tangent, result._of_level = primal, tangent, _current_level
    return result


def _primal(value):
    return value._primal if isinstance(value, _Dual) else value


def _tangent(value):
    return value._tangent if isinstance(value, _Dual) and value._of_level == _current_level else None


def _run(func, args, kwargs):
    """func of dual tensors: by the gradient of its gradient."""
    from ..utils import _pytree
    from ..overrides import DisableTorchFunctionSubclass
    leaves, form = _pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if _tangent(leaf) is not None]
    tangents = [leaves[i]._tangent for i in places]
    with DisableTorchFunctionSubclass(), enable_grad():
        plain = [_primal(leaf) for leaf in leaves]
        kept = any(isinstance(x, Tensor) and x.requires_grad for x in (*plain, *tangents))
        inputs = [plain[i] if plain[i].requires_grad else plain[i].detach().requires_grad_() for i in places]
        for i, value in zip(places, inputs):
            plain[i] = value
        args, kwargs = _pytree.tree_unflatten(plain, form)
        outputs, shape = _pytree.tree_flatten(func(*args, **kwargs))
        return _pytree.tree_unflatten([_with_tangent(out, inputs, tangents, kept) for out in outputs], shape)


def _with_tangent(output, inputs, tangents, kept):
    if not isinstance(output, Tensor) or not output.requires_grad:
        return output
    weights = _C.zeros_like(output).requires_grad_()
    gradients = _C._grad([output], inputs, [weights], True, True, True)
    pairs = [(g, t) for g, t in zip(gradients, tangents) if g is not None]
    linear = [(g, t) for g, t in pairs if g.requires_grad]
    tangent = None
    if linear:
        found = _C._grad([g for g, _ in linear], [weights], [t.to(g.dtype) for g, t in linear], True, kept, True)
        tangent = found[0]
    if tangent is None:
        tangent = _C.zeros_like(output)
    if not kept:
        output, tangent = output.detach(), tangent.detach()
    return _dual(output, tangent)


def _apply(cls, args):
    """cls.apply of dual tensors, for an autograd.Function: by its own jvp, if it has one."""
    from ..overrides import DisableTorchFunctionSubclass
    if cls.jvp is function.Function.jvp:
        return _run(cls.apply, args, {})
    with DisableTorchFunctionSubclass():
        ctx, result = cls._applied(tuple(map(_primal, args)))
        ctx.saved_tensors = ctx.__dict__.pop("_for_jvp", ())
        try:
            tangents = cls.jvp(ctx, *map(_tangent, args))
        finally:
            del ctx.saved_tensors
        outputs = result if isinstance(result, tuple) else (result,)
        tangents = tangents if isinstance(tangents, tuple) else (tangents,)
        if len(tangents) != len(outputs):
            raise RuntimeError(f"{cls.__name__}.jvp returned {len(tangents)} tangents for {len(outputs)} outputs")
        made = tuple(out if tangent is None else make_dual(out, tangent) for out, tangent in zip(outputs, tangents))
    return made if isinstance(result, tuple) else made[0]


def _in_place(name, args, kwargs):
    """x.add_(y) as x.add(y), whose result the tensor then becomes."""
    own = getattr(Tensor, name[:-1], None)
    if own is None:
        raise NotImplementedError(f"forward_ad: Tensor.{name} of a dual tensor is not supported; use a function that makes a "
                                  "new tensor")
    self = args[0]
    result = _run(own, args, kwargs)
    if not isinstance(self, _Dual):
        raise NotImplementedError(f"forward_ad: Tensor.{name} would make a tensor dual that is none; make it dual first")
    with _C.DisableTorchFunctionSubclass():
        self._primal.copy_(_primal(result))
    tangent = _tangent(result)
    self._tangent, self._of_level = (_C.zeros_like(self._primal) if tangent is None else tangent), _current_level
    return self


class _Dual(Tensor):
    """A tensor with a tangent."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if name.startswith("__i") and name[3:-2] in ("add", "sub", "mul", "truediv", "pow"):
            name = {"truediv": "div"}.get(name[3:-2], name[3:-2]) + "_"
        elif name in ("__setitem__", "requires_grad_", "detach_") or (name.startswith("__i") and name != "__invert__"):
            raise NotImplementedError(f"forward_ad: {name} of a dual tensor is not supported")
        if name.endswith("_") and not name.endswith("__"):
            return _in_place(name, args, kwargs)
        return _run(func, args, kwargs)

    def _viewed(name):  # attributes do not look for __torch_function__
        return property(lambda self: getattr(self, name)())
    T, mT, H, mH = _viewed("t"), _viewed("_transposed"), _viewed("_adjoint"), _viewed("_adjoint")
    real, imag = property(lambda self: _C.real(self)), property(lambda self: _C.imag(self))

    def _transposed(self):
        return self.transpose(-2, -1)

    def _adjoint(self):
        return self.transpose(-2, -1).conj()

    def __repr__(self):
        return f"{self._primal!r} with tangent {self._tangent!r}"


function.handlers[_Dual] = _apply
