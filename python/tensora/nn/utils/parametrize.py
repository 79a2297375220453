"""Parameters computed from others: module.weight is parametrization(module.parametrizations.weight.original)."""
from __future__ import annotations

import contextlib

from ..._C import Tensor
from ..._modes import no_grad
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

_cache = None  # within cached(): values by (module, name)


@contextlib.contextmanager
def cached():
    """Within the scope, each parametrized tensor is computed once."""
    global _cache
    before, _cache = _cache, {} if _cache is None else _cache
    try:
        yield
    finally:
        _cache = before


def _check_kept(made, original):
    if not isinstance(made, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
    for what in ("dtype", "shape"):
        before, after = getattr(original, what), getattr(made, what)
        if before != after:
            raise ValueError(f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                             f"enabled: it is {before}, and would be {after}")


def _check_inverse(inverse, present):
    if not isinstance(inverse, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}")
    for what in ("dtype", "shape"):
        wanted, found = getattr(present, what), getattr(inverse, what)
        if wanted != found:
            raise ValueError(f"The tensor returned by parametrization.right_inverse must have the same {what} as the parametrized "
                             f"tensor, unless the `unsafe` flag is enabled: expected {wanted}, got {found}")


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensors it is computed from."""

    def __init__(self, modules, original, unsafe=False):
        super().__init__(modules)
        self.unsafe = unsafe
        value = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        value = module.right_inverse(value)
        self.is_tensor = isinstance(value, Tensor)
        if not self.is_tensor and not isinstance(value, (tuple, list)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                             f"{type(value).__name__}")
        if self.is_tensor and value.dtype is not original.dtype:
            raise ValueError("When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                             f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {value.dtype}")
        self.ntensors = 1 if self.is_tensor else len(value)
        if self.is_tensor:
            if isinstance(original, Parameter):
                value = original if value is original or value.dtype is original.dtype and _overwrite(original, value) \
                    else Parameter(value.detach(), original.requires_grad)
                self.register_parameter("original", value)
            else:
                self.register_buffer("original", value)
        else:
            for i, part in enumerate(value):
                if isinstance(original, Parameter):
                    self.register_parameter(f"original{i}", Parameter(part.detach(), original.requires_grad))
                else:
                    self.register_buffer(f"original{i}", part)
        if not unsafe:
            _check_kept(self(), original)

    def right_inverse(self, value):
        """Sets the originals so that the parametrized tensor is `value`."""
        for module in reversed(list(self)):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            value = module.right_inverse(value)
        if self.is_tensor:
            self.original.data = value.detach()
        else:
            for i, part in enumerate(value):
                getattr(self, f"original{i}").data = part.detach()

    def forward(self):
        first, *rest = list(self)
        value = first(self.original) if self.is_tensor else first(*(getattr(self, f"original{i}")
                                                                    for i in range(self.ntensors)))
        for module in rest:
            value = module(value)
        return value


def _overwrite(original, value):
    original.data = value.detach()
    return True


def _property(name):
    def read(self):
        if _cache is None:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def write(self, value):
        self.parametrizations[name].right_inverse(value)
    return property(read, write)


def _own_class(module):
    """A class of the module's own, on which properties can be put."""
    kind = type(module)

    def reduce(self, protocol):
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict()")

    def deepcopy(self, memo):
        import copy
        result = self.__new__(type(self))
        memo[id(self)] = result
        result.__dict__ = copy.deepcopy(self.__dict__, memo)
        return result
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), {"__reduce_ex__": reduce, "__deepcopy__": deepcopy})
    module.parametrizations = ModuleDict()


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Computes a tensor of the module by a parametrization, a module that maps the original to it.

    >>> from tensora.nn.utils import parametrize
    >>> class Double(nn.Module):
    ...     def forward(self, x):
    ...         return 2 * x
    >>> layer = nn.Linear(2, 2)
    >>> _ = parametrize.register_parametrization(layer, "weight", Double())
    >>> bool((layer.weight == 2 * layer.parametrizations.weight.original).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        stack, present = module.parametrizations[tensor_name], getattr(module, tensor_name)
        if not unsafe:
            made = parametrization(present)
            _check_kept(made, present)
            if hasattr(parametrization, "right_inverse"):
                with contextlib.suppress(NotImplementedError):
                    _check_inverse(parametrization.right_inverse(made), present)
        stack.append(parametrization)
        stack.unsafe = stack.unsafe or unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
                         f"'{tensor_name}'")
    original = getattr(module, tensor_name)
    stack = ParametrizationList([parametrization], original, unsafe)
    module._parameters.pop(tensor_name, None)
    module._buffers.pop(tensor_name, None)
    if not is_parametrized(module):
        _own_class(module)
    module.parametrizations[tensor_name] = stack
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrizations, or one of this tensor."""
    stacks = getattr(module, "parametrizations", None)
    if not isinstance(stacks, ModuleDict):
        return False
    return len(stacks) > 0 if tensor_name is None else tensor_name in stacks


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a parametrized tensor an ordinary one: with its value, or with the original if `leave_parametrized` is False."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    stack = module.parametrizations[tensor_name]
    if not stack.is_tensor and not leave_parametrized:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of "
                         "a sequence of tensors.")
    original = stack.original if stack.is_tensor else stack.original0
    value = stack().detach() if leave_parametrized else original.detach()
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if isinstance(original, Parameter):
        if stack.is_tensor:
            original.data = value
            module.register_parameter(tensor_name, original)
        else:
            module.register_parameter(tensor_name, Parameter(value, original.requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None) -> Module:
    """Gives a module the parametrizations of another, and their originals."""
    stacks = from_module.parametrizations if is_parametrized(from_module) else {}
    names = [tensor_name] if tensor_name is not None else list(stacks)
    for name in names:
        if name not in stacks:
            continue
        for parametrization in stacks[name]:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target = to_module.parametrizations[name]
        for key, value in stacks[name]._parameters.items():
            target._parameters[key] = value
    return to_module


__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization",
           "remove_parametrizations", "transfer_parametrizations_and_params", "type_before_parametrizations"]
