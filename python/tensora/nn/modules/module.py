"""The base of all modules."""
from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable, Iterator, TypeVar

from ... import _C
from ..._C import Tensor
from ..._modes import no_grad
from ..common_types import Device
from ..parameter import Buffer, Parameter, is_lazy
from .hooks import Hooked, RemovableHandle, _BackwardHooks, _add_hook, _after_hooks
from .state import Stateful, _Changes, _IncompatibleKeys  # noqa: F401
from .utils import parse_to

_Self = TypeVar("_Self", bound="Module")
_EXTRA_STATE_KEY_SUFFIX = "_extra_state"  # PyTorch's name of the key of get_extra_state()


# ---- hooks of all modules; under PyTorch's names, which its users set and clear -----------------------------

_global_forward_pre_hooks: OrderedDict[int, Any] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Any] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_backward_pre_hooks: OrderedDict[int, Any] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Any] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Any] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Any] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Any] = OrderedDict()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Module.register_forward_pre_hook for all modules; such hooks are called before those of a module."""
    return _add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False,
                                 always_call: bool = False) -> RemovableHandle:
    """Module.register_forward_hook for all modules."""
    return _add_hook(_global_forward_hooks, hook, (_global_forward_hooks_with_kwargs, with_kwargs),
                     (_global_forward_hooks_always_called, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Module.register_full_backward_pre_hook for all modules."""
    return _add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Module.register_full_backward_hook for all modules."""
    return _add_hook(_global_backward_hooks, hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls hook(module, name, parameter) when a module gets a parameter; what it returns, if not None, replaces it."""
    return _add_hook(_global_parameter_registration_hooks, hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The same for buffers."""
    return _add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The same for modules in modules."""
    return _add_hook(_global_module_registration_hooks, hook)


def _indented(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first] + [" " * spaces + line for line in rest])


def _unimplemented(self, *input):
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module(Stateful, Hooked):
    """The base of all modules: subclass it, assign parameters and modules, write forward.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Linear(2, 3)
    ...     def forward(self, x):
    ...         return self.layer(x).relu()
    >>> Net()(tensora.ones(4, 2)).shape
    tensora.Size([4, 3])
    """
    training: bool
    dump_patches = False
    _version = 1
    call_super_init = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        put = super().__setattr__
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_modules", {})
        put("_non_persistent_buffers_set", set())
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_state_dict_hooks",
                     "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
                     "_backward_pre_hooks"):
            put(name, OrderedDict())
        for name in ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"):
            put(name, {})

    # ---- calling ----

    forward: Callable[..., Any] = _unimplemented

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
                or _global_forward_hooks or _global_forward_pre_hooks or _global_backward_hooks
                or _global_backward_pre_hooks):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args, kwargs):
        called = set()
        try:
            args, kwargs = self._after_pre_hooks(args, kwargs)
            backward = None
            if self._backward_hooks or self._backward_pre_hooks or _global_backward_hooks or _global_backward_pre_hooks:
                backward = _BackwardHooks(self, [*_global_backward_hooks.values(), *self._backward_hooks.values()],
                                          [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()])
                args = backward.watch_inputs(args)
            result = self.forward(*args, **kwargs)
            for key, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
                called.add(key)
                changed = self._call_forward_hook(key, hook, args, kwargs, result)
                result = result if changed is None else changed
            return backward.watch_outputs(result) if backward else result
        except Exception:
            self._call_remaining_hooks(called, args, kwargs)
            raise

    def _after_pre_hooks(self, args, kwargs):
        for key, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not isinstance(changed, tuple) or len(changed) != 2:
                        raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
                                           f"{changed}.")
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _call_forward_hook(self, key, hook, args, kwargs, result):
        if key in self._forward_hooks_with_kwargs or key in _global_forward_hooks_with_kwargs:
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _call_remaining_hooks(self, called, args, kwargs):
        """Those that are called after errors too."""
        for key, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
            if key in called or not (key in self._forward_hooks_always_called or key in _global_forward_hooks_always_called):
                continue
            try:
                self._call_forward_hook(key, hook, args, kwargs, None)
            except Exception as error:
                warnings.warn("module forward hook with ``always_call=True`` raised an exception that was silenced as another "
                              f"error was raised in forward: {error}", stacklevel=3)

    # ---- attributes ----

    def __setattr__(self, name: str, value: Any) -> None:
        parameters = self.__dict__.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if parameters is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            self._modules[name] = _after_hooks(_global_module_registration_hooks, self, name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' object to parameter '{name}' "
                                "(nn.Parameter or None required)")
            parameters[name] = None
            _Changes.count += 1
        elif parameters is not None and name in self._modules:
            if value is not None:
                raise TypeError(f"cannot assign '{type(value).__name__}' object to child module '{name}' "
                                "(nn.Module or None required)")
            self._modules[name] = None
            _Changes.count += 1
        elif parameters is not None and (name in self._buffers or isinstance(value, Buffer)):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{type(value).__name__}' object to buffer '{name}' "
                                "(Tensor or None required)")
            if name not in self._buffers:
                self.register_buffer(name, value, value.persistent)
            else:
                self._buffers[name] = _after_hooks(_global_buffer_registration_hooks, self, name, value)
        else:
            if name == "training" and value is not self.__dict__.get(name):
                _Changes.count += 1
            super().__setattr__(name, value)

    def _forget(self, name, keep):
        for place in ("_parameters", "_buffers", "_modules"):
            if place != keep:
                self.__dict__[place].pop(name, None)
        self.__dict__.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> _Member:
        for place in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(place)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for place in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(place, {}):
                _Changes.count += 1
                del self.__dict__[place][name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(self._parameters) | set(self._buffers) | set(self._modules))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a pickle: what PyTorch's or an older version's module does not have is empty."""
        Module.__init__(self)
        self.__dict__.update(state)

    # ---- registration ----

    def _check_name(self, name, kind, taken):
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".": {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in taken:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter."""
        self._check_name(name, "parameter", self.__dict__.get("_parameters", {}))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                            "(nn.Parameter or None required)")
        if param is not None and not param.is_leaf:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                             "explicitly.")
        self._parameters[name] = _after_hooks(_global_parameter_registration_hooks, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is part of the state and is no parameter."""
        self._check_name(name, "buffer", self.__dict__.get("_buffers", {}))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                            "(torch Tensor or None required)")
        self._buffers[name] = _after_hooks(_global_buffer_registration_hooks, self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "module", self.__dict__.get("_modules", {}))
        self._modules[name] = _after_hooks(_global_module_registration_hooks, self, name, module)

    register_module = add_module

    # ---- looking around ----

    def get_submodule(self, target: str) -> Module:
        """The module of that dotted name."""
        module = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{type(module).__name__} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError(f"`{part}` is not an nn.Module")
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        path, _, name = target.rpartition(".")
        parameter = getattr(self.get_submodule(path), name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name."""
        path, _, name = target.rpartition(".")
        return self.get_submodule(path)._buffers[name]

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """All modules below, with their names, this one first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all in it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are registered here, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules that are registered here."""
        for _, module in self.named_children():
            yield module

    def _named(self, place, prefix, recurse, remove_duplicate):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in module.__dict__[place].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names, each once."""
        yield from self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their dotted names, each once."""
        yield from self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # ---- changing all of it ----

    def apply(self: _Self, fn: Callable[[Module], Any]) -> _Self:
        """Calls fn on every module below, children first."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        _Changes.count += 1
        for module in self.children() if recurse else ():
            module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                with no_grad():
                    grad = parameter.grad  # one that does not fit the new data is dropped
                    parameter.data = fn(parameter.data)
                    if grad is not None:
                        parameter.grad = fn(grad)
        for name, buffer in self._buffers.items():
            if is_lazy(buffer):
                buffer.data = fn(buffer.data)
            elif buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: _Self, *args: Any, **kwargs: Any) -> _Self:
        """Moves parameters and buffers to a device; changes the dtype of the floating ones."""
        device, dtype, non_blocking, memory_format = parse_to(*args, **kwargs)

        def convert(t):
            wanted = dtype if t.is_floating_point() or t.is_complex() else None
            layout = memory_format if t.dim() in (4, 5) else None
            return t.to(device=device, dtype=wanted, non_blocking=non_blocking, memory_format=layout)
        return self._apply(convert)

    def cuda(self: _Self, device: Device = None) -> _Self:
        return self._apply(lambda t: t.cuda(device))

    def cpu(self: _Self) -> _Self:
        return self._apply(lambda t: t.cpu())

    def to_empty(self: _Self, *, device: Device, recurse: bool = True) -> _Self:
        """Gives parameters and buffers memory on a device, without their values."""
        return self._apply(lambda t: _C.empty_like(t, device=device), recurse)

    def _floating(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self: _Self) -> _Self:
        return self._floating(_C.float32)

    def double(self: _Self) -> _Self:
        return self._floating(_C.float64)

    def half(self: _Self) -> _Self:
        return self._floating(_C.float16)

    def bfloat16(self: _Self) -> _Self:
        return self._floating(_C.bfloat16)

    def type(self: _Self, dst_type: Any) -> _Self:
        return self._apply(lambda t: t.type(dst_type))

    def train(self: _Self, mode: bool = True) -> _Self:
        """Sets training mode, which dropout and batch norm ask for."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: _Self) -> _Self:
        return self.train(False)

    def requires_grad_(self: _Self, requires_grad: bool = True) -> _Self:
        """Says of all parameters whether gradients are computed."""
        _Changes.count += 1
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets all gradients, or sets them to zero."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                if set_to_none:
                    parameter.grad = None
                else:
                    parameter.grad = _C.zeros_like(parameter.grad)

    def share_memory(self: _Self) -> _Self:
        """Moves parameters and buffers into memory that processes share."""
        for tensor in filter(is_lazy, (*self.parameters(), *self.buffers())):
            tensor.share_memory_()  # which refuses
        return self._apply(lambda t: t.share_memory_())

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Fuses the kernels of forward; see tensora.compile."""
        from ... import compile
        compile(self, *args, **kwargs)

    # ---- printing ----

    def extra_repr(self) -> str:
        """What stands between the parentheses; a layer says its sizes."""
        return ""

    def _get_name(self):
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(module), 2)}" for name, module in self._modules.items()]
        if len(lines) <= 1 and not children:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"


if TYPE_CHECKING:
    class _Member(Tensor, Module):
        """What type checkers take attributes for that a module registered by name: a parameter, a buffer or a child."""
        __call__: None
