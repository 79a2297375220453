"""The view ops as functions that return copies: permute_copy is permute, then clone."""
from . import _C
from ._C import Tensor
from ._functions import split

_VIEWS = ("alias", "as_strided", "detach", "diagonal", "expand", "narrow", "permute", "select", "squeeze", "t", "transpose",
          "unbind", "unfold", "unsqueeze", "view", "view_as_real", "view_as_complex", "split_with_sizes", "split")
__all__ = [name + "_copy" for name in _VIEWS] + ["constant_pad_nd"]


def into(out, result):
    """The result, or `out` with its values."""
    if out is None:
        return result
    if isinstance(out, Tensor):
        return out.resize_(result.shape).copy_(result)
    for place, value in zip(out, result):
        into(place, value)
    return out


def _copying(name, view):
    def copy(input, *args, out=None, **kwargs):
        result = view(input, *args, **kwargs)
        if out is not None:
            return into(out, result)
        return result.clone() if isinstance(result, Tensor) else tuple(part.clone() for part in result)
    copy.__name__ = copy.__qualname__ = name + "_copy"
    copy.__doc__ = f"A copy of what `{name}` gives."
    return copy


_ELSEWHERE = {"alias": lambda input: input, "split": split}
for _name in _VIEWS:
    globals()[_name + "_copy"] = _copying(_name, _ELSEWHERE.get(_name) or getattr(Tensor, _name))


def constant_pad_nd(input, pad, value=0):
    """pad with a number."""
    return _C.pad(input, list(pad), "constant", value)
