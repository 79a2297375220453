"""What programs hang on modules: hooks around forward and backward, and around their state."""
from __future__ import annotations

import functools
import itertools
import types
import warnings
import weakref
from typing import Any, Callable

from ..._C import Tensor
from .state import _Changes

_hook_ids = itertools.count()


class RemovableHandle:
    """Undoes a registration; also as a context manager."""

    def __init__(self, hooks: dict[int, Any], *extras: Any) -> None:
        self.id = next(_hook_ids)
        self._places = (hooks,) + extras

    def remove(self) -> None:
        for hooks in self._places:
            hooks.pop(self.id, None)

    def hooks_dict_ref(self) -> dict[int, Any]:
        """The hooks among which it is."""
        return self._places[0]

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def _add_hook(hooks, hook, *flags, prepend=False):
    """Adds a hook; `flags` are pairs of a dict and whether the hook is to be in it."""
    handle = RemovableHandle(hooks, *(place for place, _ in flags))
    hooks[handle.id] = hook
    for place, wanted in flags:
        if wanted:
            place[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _after_hooks(hooks, module, name, value):
    """What the hooks on registration make of a parameter, buffer or module."""
    _Changes.count += 1
    for hook in list(hooks.values()):
        changed = hook(module, name, value)
        value = value if changed is None else changed
    return value


class _WithModule:
    """A hook that is called with its module first. The module holds it, so it must not hold the module."""

    def __init__(self, hook, module):
        self._hook, self._module = hook, weakref.ref(module)

    def __call__(self, *args):
        return self._hook(self._module(), *args)

    def __getstate__(self):
        return self._hook, self._module()

    def __setstate__(self, state):
        self.__init__(*state)


class Hooked:
    """The part of Module that registers hooks."""

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """Calls hook(module, args) before forward; what it returns replaces the arguments."""
        return _add_hook(self._forward_pre_hooks, hook, (self._forward_pre_hooks_with_kwargs, with_kwargs), prepend=prepend)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """Calls hook(module, args, output) after forward; what it returns replaces the output."""
        return _add_hook(self._forward_hooks, hook, (self._forward_hooks_with_kwargs, with_kwargs),
                         (self._forward_hooks_always_called, always_call), prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_input, grad_output) when the gradients of the inputs are known."""
        return _add_hook(self._backward_hooks, hook, prepend=prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_output) when the gradients of the outputs are known."""
        return _add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def _register_state_dict_hook(self, hook):
        """The same as the next function, for a hook that may return another dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("Cannot register the same function as the state dict post hook that was previously registered via "
                               "register_state_dict_post_hook")
        return _add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, state_dict, prefix, local_metadata) when state_dict() has filled the dict, which it may change."""
        if hasattr(hook, "__dict__") and not isinstance(hook, types.MethodType):
            hook._from_public_api = True
        return _add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, prefix, keep_vars) before state_dict()."""
        return _add_hook(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return _add_hook(self._load_state_dict_pre_hooks, _WithModule(hook, self) if with_module else hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls hook(module, incompatible_keys) after load_state_dict(); it may change the keys in place."""
        return _add_hook(self._load_state_dict_post_hooks, hook)


@functools.cache
def _watched_function():
    from ...autograd import Function

    class Watched(Function):
        """The identity; gradients pass a function."""

        @staticmethod
        def forward(ctx, backward, watched, *tensors):
            ctx.call, ctx.watched = backward, watched
            return tuple(t.view_as(t) for t in tensors)

        @staticmethod
        def backward(ctx, *grads):
            given = iter(grads)
            changed = ctx.call(tuple(next(given) if is_one else None for is_one in ctx.watched))
            return None, None, *(g for g, is_one in zip(changed, ctx.watched) if is_one)
    return Watched


def _is_watched(value):
    return isinstance(value, Tensor) and value.requires_grad


def _replaced(changed, grads, what):
    """The gradients that a hook returned, or those from before."""
    if changed is None:
        return grads
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(grads):
        raise RuntimeError(f"Backward {what} returned an invalid number of grad_{'output' if what == 'pre hook' else 'input'}, got "
                           f"{len(changed)}, but expected {len(grads)}")
    return changed


class _BackwardHooks:
    """Calls a module's backward hooks: identity functions around forward see the gradients pass."""

    def __init__(self, module, hooks, pre_hooks) -> None:
        self.module, self.grad_output, self._hooks, self._pre_hooks = module, None, hooks, pre_hooks

    @staticmethod
    def _identity(values, backward):
        """The same tuple, through whose tensors gradients pass `backward`; None where there are no gradients."""
        watched = [_is_watched(v) for v in values]
        made = iter(_watched_function().apply(backward, watched, *(v for v, is_one in zip(values, watched) if is_one)))
        return tuple(next(made) if is_one else v for v, is_one in zip(values, watched))

    def watch_inputs(self, args):
        self._count = len(args)
        if not any(map(_is_watched, args)):
            return args

        def backward(grads):
            for hook in self._hooks:
                grads = _replaced(hook(self.module, grads, self.grad_output), grads, "hook")
            return grads
        self._has_inputs = True
        return self._identity(args, backward)

    _has_inputs = False

    def watch_outputs(self, result):
        outputs = (result,) if isinstance(result, Tensor) else result
        if not isinstance(outputs, tuple):
            warnings.warn("For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                          f"{type(result)}", stacklevel=4)
            return result
        if not any(map(_is_watched, outputs)):
            return result

        def backward(grads):
            for hook in self._pre_hooks:
                grads = _replaced(hook(self.module, grads), grads, "pre hook")
            self.grad_output = grads
            if not self._has_inputs:
                for hook in self._hooks:
                    changed = hook(self.module, (None,) * self._count, grads)
                    if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
                        raise RuntimeError("Backward hook for Modules where no input requires gradient should always return None "
                                           "or None for all gradients.")
            return grads
        outputs = self._identity(outputs, backward)
        if isinstance(result, Tensor):
            return outputs[0]
        return type(result)(*outputs) if hasattr(result, "_fields") else outputs
