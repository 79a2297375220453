"""Calls of modules with other parameters and buffers."""
import contextlib
import itertools
from collections.abc import Mapping

from ._C import Tensor

_MISSING = object()


def _swap(owner, name, tensor):
    """Sets an attribute of a module; gives what was there before."""
    for place in (owner._parameters, owner._buffers):
        if name in place:
            before = place[name]
            if tensor is _MISSING:
                del place[name]
            else:
                place[name] = tensor
            return before
    before = getattr(owner, name, _MISSING)
    if before is not _MISSING and before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(owner, name, tensor)
    elif before is not _MISSING:
        delattr(owner, name)
    return before


def _named(module):
    return dict(itertools.chain(module.named_parameters(remove_duplicate=False),
                                module.named_buffers(remove_duplicate=False)))


def _untied(tensors, given):
    """The values with those of the other names of tensors that are given."""
    names_of = {}
    for name, tensor in tensors.items():
        names_of.setdefault(id(tensor), []).append(name)
    values = dict(given)
    for names in names_of.values():
        known = [name for name in names if name in given]
        if len(names) < 2 or not known:
            continue
        if len({id(given[name]) for name in known}) > 1:
            raise ValueError(f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using "
                             "tie_weights=False")
        values.update({name: given[known[0]] for name in names})
    return values


def _check_keys(module, tensors, values):
    problems = []
    for word, names in (("Unexpected", [n for n in values if n not in tensors]),
                        ("Missing", [n for n in tensors if n not in values])):
        if names:
            problems.append(f"{word} key(s): {', '.join(map(repr, names))}.")
    if problems:
        raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(type(module).__name__, "\n\t".join(problems)))


@contextlib.contextmanager
def reparametrized(module, given, tie_weights, strict):
    """A scope in which the module has the values of a dict. What the module assigns to them there is in the dict afterwards."""
    tensors = _named(module) if tie_weights or strict else {}
    values = _untied(tensors, given) if tie_weights else given
    if strict:
        _check_keys(module, tensors, values)
    kept = []
    try:
        for name, value in values.items():
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            path, _, last = name.rpartition(".")
            owner = module.get_submodule(path)
            kept.append((owner, last, name, _swap(owner, last, value)))
        yield
    finally:
        for owner, last, name, before in reversed(kept):
            now = _swap(owner, last, before)
            if name in given and now is not _MISSING:
                given[name] = now


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Calls a module with other parameters and buffers: a dict by name, or a tuple of such dicts.

    Names of tied parameters share a value unless `tie_weights` is False; `strict` asks for values of all names and of no
    others. What the module assigns to a parameter or buffer that was given is put into the dict.
    """
    given = parameter_and_buffer_dicts
    if isinstance(given, (tuple, list)):
        if not all(isinstance(part, Mapping) for part in given):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = [name for part in given for name in part]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {name: value for part in given for name, value in part.items()}
    elif not isinstance(given, Mapping):
        raise ValueError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
                         f"{type(given)}")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrized(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))
