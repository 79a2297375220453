"""What programs hang on modules: hooks around forward and backward, and around their state."""
from __future__ import annotations

import itertools
from typing import Any, Callable

from ..._C import Tensor

_hook_ids = itertools.count()


class RemovableHandle:
    """Undoes a registration; also as a context manager."""

    def __init__(self, hooks: dict[int, Any], *extras: Any) -> None:
        self.id = next(_hook_ids)
        self._places = (hooks,) + extras

    def remove(self) -> None:
        for hooks in self._places:
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


class Hooked:
    """The part of Module that registers hooks."""

    def _add_hook(self, hooks, hook, prepend=False, with_kwargs=False, always_call=False):
        handle = RemovableHandle(hooks, self._hooks_with_kwargs, self._always_called_hooks)
        hooks[handle.id] = hook
        if with_kwargs:
            self._hooks_with_kwargs[handle.id] = True
        if always_call:
            self._always_called_hooks[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """Calls hook(module, args) before forward; what it returns replaces the arguments."""
        return self._add_hook(self._forward_pre_hooks, hook, prepend, with_kwargs)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """Calls hook(module, args, output) after forward; what it returns replaces the output."""
        return self._add_hook(self._forward_hooks, hook, prepend, with_kwargs, always_call)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_input, grad_output) when the gradients of the inputs are known."""
        return self._add_hook(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls hook(module, grad_output) when the gradients of the outputs are known."""
        return self._add_hook(self._backward_pre_hooks, hook, prepend)

    def _register_state_dict_hook(self, hook):
        return self._add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._add_hook(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        call = (lambda *args: hook(self, *args)) if with_module else hook
        return self._add_hook(self._load_state_dict_pre_hooks, call)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self._add_hook(self._load_state_dict_post_hooks, hook)


class _BackwardHooks:
    """Calls a module's backward hooks: identity functions around forward see the gradients pass."""

    def __init__(self, module) -> None:
        self.module, self.grad_output = module, None

    def watch_inputs(self, args):
        from ...autograd import Function
        tensors = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
        if not tensors:
            return args
        owner = self

        class Inputs(Function):
            @staticmethod
            def forward(ctx, *values):
                return tuple(v.view_as(v) for v in values)

            @staticmethod
            def backward(ctx, *grads):
                full = iter(grads)
                listed = tuple(next(full) if isinstance(a, Tensor) and a.requires_grad else None for a in args)
                for hook in list(owner.module._backward_hooks.values()):
                    changed = hook(owner.module, listed, owner.grad_output)
                    if changed is not None:
                        listed = changed if isinstance(changed, tuple) else (changed,)
                return tuple(g for g, a in zip(listed, args) if isinstance(a, Tensor) and a.requires_grad)
        self._has_inputs = True
        replaced = iter(Inputs.apply(*tensors))
        return tuple(next(replaced) if isinstance(a, Tensor) and a.requires_grad else a for a in args)

    _has_inputs = False

    def watch_outputs(self, result):
        from ...autograd import Function
        single = isinstance(result, Tensor)
        outputs = (result,) if single else tuple(result)
        tensors = [o for o in outputs if isinstance(o, Tensor) and o.requires_grad]
        if not tensors:
            return result
        owner = self

        class Outputs(Function):
            @staticmethod
            def forward(ctx, *values):
                return tuple(v.view_as(v) for v in values)

            @staticmethod
            def backward(ctx, *grads):
                for hook in list(owner.module._backward_pre_hooks.values()):
                    changed = hook(owner.module, grads)
                    if changed is not None:
                        grads = changed if isinstance(changed, tuple) else (changed,)
                owner.grad_output = grads
                if not owner._has_inputs:
                    for hook in list(owner.module._backward_hooks.values()):
                        hook(owner.module, (None,), grads)
                return grads
        replaced = iter(Outputs.apply(*tensors))
        outputs = [next(replaced) if isinstance(o, Tensor) and o.requires_grad else o for o in outputs]
        return outputs[0] if single else type(result)(outputs)
